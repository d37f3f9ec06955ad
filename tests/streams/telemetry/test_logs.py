from __future__ import annotations

import base64
import io
import json
import logging
from urllib.parse import quote, quote_plus

import pytest
import structlog
from pydantic import SecretStr

from judge.text.redaction import MIN_CHARS, Masker
from streams.settings.outputs import TelemetrySettings
from streams.settings.tree import Settings
from streams.telemetry.logs import (
    MOST_MESSAGES,
    VARIANTS,
    Repeats,
    set_up_logs,
    settings_masker,
    short_secrets,
)

SECRET = 'pa+ss/wörd "7"\\x'


def written_to(**telemetry: str) -> io.StringIO:
    stream = io.StringIO()
    set_up_logs(TelemetrySettings.model_validate(telemetry), stream, masker=Masker([SECRET]))
    return stream


def test_lines_of_all_loggers_are_json() -> None:
    stream = written_to(log_format="json")
    structlog.stdlib.get_logger("ours").info("read", detail='x"}\n{"event":"forged"')
    logging.getLogger("theirs").warning("slow %s", "broker")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["level"], first["logger"]) == ("read", "info", "ours")
    assert first["detail"].endswith('"forged"')
    assert (second["event"], second["level"], second["logger"]) == ("slow broker", "warning", "theirs")


def test_levels_are_kept() -> None:
    stream = written_to(log_format="text", log_level="info")
    structlog.stdlib.get_logger("ours").debug("hidden")
    logging.getLogger("aiokafka.consumer").info("joined")
    structlog.stdlib.get_logger("ours").info("shown")
    assert "shown" in stream.getvalue()
    assert "hidden" not in stream.getvalue()
    assert "joined" not in stream.getvalue()
    stream = written_to(log_level="debug")
    logging.getLogger("aiokafka.conn").debug("Request %s", b"\\0user\\0password")
    logging.getLogger("aiokafka.producer.producer").debug("Sending (key=%s value=%s) to %s", 1, 2, 3)
    logging.getLogger("aiokafka.consumer").debug("joined")
    assert "joined" in stream.getvalue()
    assert "Request" not in stream.getvalue()
    assert "Sending" not in stream.getvalue()


def test_foreign_text_forges_no_line_and_steers_no_terminal() -> None:
    stream = written_to(log_format="text")
    hostile = "a\nforged line\x1b[2J\x9b31m"
    structlog.stdlib.get_logger("ours").info(hostile, detail=hostile)
    logging.getLogger("theirs").warning("got %s", hostile)
    try:
        held = "held-in-a-variable"
        raise ValueError(hostile)  # noqa: TRY301 - the traceback is what is tested
    except ValueError:
        structlog.stdlib.get_logger("ours").exception("failed")
        assert held
    written = stream.getvalue()
    assert not {"\x1b", "\x9b"} & set(written)
    assert not [line for line in written.splitlines() if line.startswith("forged")]
    assert written.count("forged line") >= 4
    assert "ValueError: a" in written
    assert "held-in-a-variable" not in written


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        json.dumps(SECRET),
        repr(SECRET),
        repr(SECRET.encode()),
        str({"key": SECRET}),
        json.dumps({"key": SECRET}, ensure_ascii=False).encode().decode(),
    ],
)
def test_every_way_to_write_a_secret(form: str) -> None:
    masked = Masker([SECRET]).mask(f"before {form} after")
    assert "rd" not in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")


def test_what_is_masked() -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert "***" in Masker([SECRET]).mask(encode(SECRET.encode()).decode())
    for masker in (Masker([]), Masker([SECRET]), Masker(["a" * (MIN_CHARS - 1), ""])):
        assert masker.mask("aaaaa of it") == "aaaaa of it"
    assert Masker(["secret-1", "secret-12"]).mask("secret-12") == "***"  # the longer one first


def test_what_is_known_to_be_secret() -> None:
    endpoints = [
        {"name": "a", "model": "m", "api_key": SecretStr("judge-by-value")},
        {"name": "b", "model": "m", "api_key_env": "FIVE"},
    ]
    settings = Settings.model_validate({"judge": {"endpoints": endpoints}})
    env = {"OPENAI_API_KEY": "sk-well-known", "FIVE": "EMPTY"}
    mask = settings_masker(settings, env).mask
    assert mask("judge-by-value, sk-well-known, EMPTY") == "***, ***, EMPTY"
    assert short_secrets(settings, env) == ["judge.endpoints.1.api_key_env"]


class _Log:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.repeats = Repeats(now=lambda: self.seconds)
        self.lines: list[str] = []

    def say(self, message: object, *args: object, level: int = logging.WARNING) -> None:
        record = logging.LogRecord("aiokafka", level, "", 0, message, args, None)
        if self.repeats.filter(record):
            self.lines.append(json.dumps(record.msg) if isinstance(record.msg, dict) else record.getMessage())


@pytest.fixture
def log() -> _Log:
    return _Log()


def test_a_message_repeated_for_90_s_gives_two_lines(log: _Log) -> None:
    for hundredth in range(9_000):
        log.seconds = hundredth / 100
        log.say("Failed fetch messages from %s: %s", hundredth % 3, "closed")
    assert log.lines == [
        "Failed fetch messages from 0: closed",
        "Failed fetch messages from 0: closed (repeated 5999, seconds 60)",
    ]
    log.seconds += 3600
    for _ in range(2):
        log.seconds += 61
        log.say("later")
    log.say("Failed fetch messages from %s: %s", 7, "closed")
    # Rare messages are written each time; what was held back is told when the message comes again.
    assert log.lines[2:] == [
        "later", "later", "Failed fetch messages from 7: closed (repeated 2999, seconds 3752)",
    ]  # fmt: skip


def test_messages_are_told_apart_by_template_and_level(log: _Log) -> None:
    log.say("a %s", 1)
    log.say("b %s", 1)
    log.say("a %s", 2, level=logging.ERROR)
    log.say("Task 12 at 0x7f3a was destroyed")
    log.say("Task 13 at 0x7f3b was destroyed")
    for _ in range(3):
        log.say("x", level=logging.DEBUG)  # never held back
    assert log.lines == ["a 1", "b 1", "a 2", "Task 12 at 0x7f3a was destroyed", *["x"] * 3]


def test_events_with_other_fields_are_written_up_to_a_limit(log: _Log) -> None:
    for offset in range(100):
        log.say({"event": "record skipped", "offset": offset, "timestamp": str(offset)})
        log.say({"event": "topic refused", "topic": "t", "timestamp": str(offset)})
        log.say({"event": "alert", "summary": "down"})
    events = [json.loads(line)["event"] for line in log.lines]
    assert [events.count(name) for name in ("record skipped", "topic refused", "alert")] == [VARIANTS, 1, 100]


def test_memory_is_bounded(log: _Log) -> None:
    for number in range(3 * MOST_MESSAGES):
        log.say("m" * (number % 190) + chr(1000 + number))
    assert len(log.repeats._messages) <= MOST_MESSAGES


def test_the_log_holds_back_repeated_messages() -> None:
    stream = written_to(log_format="json")
    for number in range(1_000):
        logging.getLogger("aiokafka.cluster").error("Unable connect to node with id %s", number)
        structlog.stdlib.get_logger("streams.kafka").warning("writing fails", topic="t")
    assert len(stream.getvalue().splitlines()) == 2
