from __future__ import annotations

import pytest

from streams.errors import SettingsError
from streams.monitoring.from_settings import monitor_config
from streams.settings import MonitorSettings


@pytest.mark.parametrize("level", [1, 5.5])
def test_an_objective_outside_the_scale_is_refused(level: float) -> None:
    """All answers or none would meet it."""
    settings = MonitorSettings.model_validate({"objectives": {"relevance": {"at_least": level}}})
    with pytest.raises(
        SettingsError, match=r"monitor\.objectives\.relevance\.at_least: must be above 1 and at most 5"
    ):
        monitor_config(settings, {"relevance": (1, 5)})


def test_an_objective_on_the_scale_is_none_of_the_detector_s_business() -> None:
    settings = MonitorSettings.model_validate({"objectives": {"relevance": {"at_least": 3}}})
    scales = {"relevance": (1.0, 5.0)}
    assert monitor_config(settings, scales) == monitor_config(MonitorSettings(), scales)
