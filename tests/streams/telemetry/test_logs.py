from __future__ import annotations

import io
import json
import logging

import structlog

from streams.settings import TelemetrySettings
from streams.telemetry.logs import set_up_logs


def test_lines_of_all_loggers_are_json() -> None:
    """Lines of the worker and of libraries are JSON objects, one a line, also with hostile text."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(log_format="json"), stream)
    structlog.stdlib.get_logger("ours").info("read", detail='x"}\n{"event":"forged"')
    logging.getLogger("theirs").warning("slow %s", "broker")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["level"], first["logger"]) == ("read", "info", "ours")
    assert first["detail"].endswith('"forged"')
    assert (second["event"], second["level"], second["logger"]) == ("slow broker", "warning", "theirs")


def test_levels_are_kept() -> None:
    """Lines below the level, and informational lines of libraries, are not written."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(log_format="text", log_level="info"), stream)
    structlog.stdlib.get_logger("ours").debug("hidden")
    logging.getLogger("aiokafka.consumer").info("joined")
    structlog.stdlib.get_logger("ours").info("shown")
    assert "shown" in stream.getvalue()
    assert "hidden" not in stream.getvalue()
    assert "joined" not in stream.getvalue()


def test_foreign_text_forges_no_line_and_steers_no_terminal() -> None:
    """In text form, line ends and control characters of values, messages and tracebacks are escaped."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(log_format="text"), stream)
    hostile = "a\nforged line\x1b[2J\x9b31m"
    structlog.stdlib.get_logger("ours").info(hostile, detail=hostile)
    logging.getLogger("theirs").warning("got %s", hostile)
    try:
        int(hostile)
    except ValueError:
        structlog.stdlib.get_logger("ours").exception("failed")
    written = stream.getvalue()
    assert "\x1b" not in written
    assert "\x9b" not in written
    assert not [line for line in written.splitlines() if line.startswith("forged")]
    assert written.count("forged line") >= 4
