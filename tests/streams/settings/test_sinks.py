from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import SettingsError
from streams.settings import Settings, load_settings, mask, secrets_of

PHOENIX = "kind: phoenix, url: 'http://p:6006'"


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ("url: 'http://x'", "kind: must be one of incident_webhook, langfuse, mlflow, otlp_http"),
        ("kind: phenix", "kind: phenix is not in judgestream.sinks; did you mean phoenix?"),
        ("kind: phoenix", "url: is required"),
        ("kind: otlp_topic, url: 'http://x'", "url is not a setting of this kind; remove it"),
        ("kind: langfuse, url: 'https://x', secret_env: S", "public_key: is required"),
        ("kind: webhook, url: 'https://x'", "secret: is required; set secret_env or secret_file"),
        (f"{PHOENIX}, secret: abc", "secret: must not be in the file; use secret_env"),
        (f"{PHOENIX}, public_kye: k", "public_kye is not a setting; did you mean public_key?"),
        ("kind: phoenix, url: x", "url: must start with https:// or http://"),
    ],
)
def test_a_sink_that_cannot_be_used_is_refused_with_the_remedy(
    tmp_path: Path, sink: str, problem: str
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"sinks: {{one: {{{sink}}}}}")
    with pytest.raises(SettingsError) as raised:
        load_settings(file, {})
    assert f"sinks.one.{problem}" in str(raised.value)


def test_variables_reach_what_only_one_kind_has() -> None:
    variables = {"KIND": "langfuse", "URL": "https://x", "PUBLIC_KEY": "123", "SECRET": "very secret"}
    env = {f"JUDGESTREAM_SINKS__ONE__{name}": value for name, value in variables.items()}
    settings = load_settings(None, env)
    assert mask(settings)["sinks"]["one"] == {
        "kind": "langfuse",
        "url": "https://x",
        "public_key": "123",
        "secret": "**********",
    }
    assert dict(secrets_of(settings, {})) == {"sinks.one.secret": "very secret"}


def test_a_sink_that_has_it_all_is_taken() -> None:
    """A trailing slash of the address is removed."""
    settings = Settings.model_validate({"sinks": {"one": {"kind": "phoenix", "url": "http://p:6006/"}}})
    assert settings.sinks["one"].model_dump()["url"] == "http://p:6006"
