from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from streams.settings import TelemetrySettings
from streams.telemetry.logs import set_up_logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_lines_are_json_whoever_writes_them() -> None:
    """One object a line for our own lines and for a library's; hostile text stays inside its value."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(log_format="json"), stream)
    structlog.stdlib.get_logger("ours").info("read", detail='x"}\n{"event":"forged"')
    logging.getLogger("theirs").warning("slow %s", "broker")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["level"], first["logger"]) == ("read", "info", "ours")
    assert first["detail"].endswith('"forged"')
    assert (second["event"], second["level"], second["logger"]) == ("slow broker", "warning", "theirs")


def test_levels_are_kept() -> None:
    """Below the level nothing is written; the libraries' chatter is not, either."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(log_format="text", log_level="info"), stream)
    structlog.stdlib.get_logger("ours").debug("hidden")
    logging.getLogger("aiokafka.consumer").info("joined")
    structlog.stdlib.get_logger("ours").info("shown")
    assert "shown" in stream.getvalue()
    assert "hidden" not in stream.getvalue()
    assert "joined" not in stream.getvalue()
