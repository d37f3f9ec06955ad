from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from streams.settings import Settings


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ({"kind": "phoenix"}, "is required for phoenix"),
        ({"kind": "otlp_topic", "url": "http://x"}, "has no effect with otlp_topic"),
        (
            {"kind": "langfuse", "url": "https://x", "secret_env": "S"},
            "public_key: is required for langfuse",
        ),
        ({"kind": "webhook", "url": "https://x"}, "secret_env: is required for webhook"),
        (
            {"kind": "incident_webhook", "url": "https://x"},
            "secret_env: is required for incident_webhook",
        ),
        ({"kind": "phoenix", "url": "x"}, "must start with https:// or http://"),
    ],
)
def test_a_sink_that_lacks_something_is_refused_with_the_remedy(sink: dict[str, Any], problem: str) -> None:
    """A sink without a required field is refused when the settings are loaded."""
    with pytest.raises(ValidationError, match=problem):
        Settings.model_validate({"sinks": {"one": sink}})


def test_a_sink_that_has_it_all_is_taken() -> None:
    """A trailing slash of the address is removed."""
    settings = Settings.model_validate({"sinks": {"one": {"kind": "phoenix", "url": "http://p:6006/"}}})
    assert settings.sinks["one"].url == "http://p:6006"
