"""A repeated message is written at its start, once a minute, and at its end."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from streams.settings import TelemetrySettings
from streams.telemetry.logs import MOST_MESSAGES, VARIANTS, Repeats, set_up_logs


class _Log:
    """A logger behind the filter, with a clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.ended: list[str] = []
        self.repeats = Repeats(lambda line: self.ended.append(_text(line)), now=lambda: self.seconds)
        self.lines: list[str] = []

    def say(self, message: object, *args: object, level: int = logging.WARNING) -> None:
        record = logging.LogRecord("aiokafka", level, "", 0, message, args, None)
        if self.repeats.filter(record):
            self.lines.append(_text(record))

    def ends(self) -> list[str]:
        """Return the lines that the next line brings."""
        self.repeats.filter(logging.LogRecord("later", logging.INFO, "", 0, "later", (), None))
        ended, self.ended = self.ended, []
        return ended


def _text(record: logging.LogRecord) -> str:
    return json.dumps(record.msg) if isinstance(record.msg, dict) else record.getMessage()


@pytest.fixture
def log() -> _Log:
    return _Log()


def test_a_message_repeated_for_90_s_gives_three_lines(log: _Log) -> None:
    """100 lines a second for 90 s give three lines: at the start, after a minute, and at the end."""
    for hundredth in range(9_000):
        log.seconds = hundredth / 100
        log.say("Failed fetch messages from %s: %s", hundredth % 3, "closed")
    assert log.lines == [
        "Failed fetch messages from 0: closed",
        "Failed fetch messages from 0: closed (repeated 5999, seconds 60)",
    ]
    log.seconds += 61
    assert log.ends() == ["stopped repeating: Failed fetch messages from 0: closed (times 9000, seconds 90)"]
    assert log.ends() == []


def test_rare_messages_are_written_each_time(log: _Log) -> None:
    """A message that repeats after more than a minute is written each time, without an end."""
    for minute in range(3):
        log.seconds = minute * 70.0
        log.say("broker %s is away", 1)
    assert log.lines == ["broker 1 is away"] * 3
    log.seconds += 61
    assert log.ends() == []


def test_different_messages_do_not_hold_each_other_back(log: _Log) -> None:
    """Messages are told apart by template and level."""
    log.say("a %s", 1)
    log.say("b %s", 1)
    log.say("a %s", 1, level=logging.ERROR)
    assert log.lines == ["a 1", "b 1", "a 1"]


def test_numbers_and_addresses_in_a_finished_text_tell_nothing_apart(log: _Log) -> None:
    """Numbers and addresses in a formatted text, as asyncio writes, do not make it a new message."""
    log.say("Task 12 at 0x7f3a was destroyed")
    log.say("Task 13 at 0x7f3b was destroyed")
    assert len(log.lines) == 1


def test_events_with_other_fields_are_written_up_to_a_limit(log: _Log) -> None:
    """An event of the worker with other fields is new, up to VARIANTS; alerts are always written."""
    for offset in range(100):
        log.say({"event": "record skipped", "offset": offset, "timestamp": str(offset)})
        log.say({"event": "topic refused", "topic": "t", "timestamp": str(offset)})
        log.say({"event": "alert", "summary": "down"})
    said = [json.loads(line)["event"] for line in log.lines]
    assert said.count("record skipped") == VARIANTS
    assert said.count("topic refused") == 1
    assert said.count("alert") == 100


def test_debug_holds_nothing_back(log: _Log) -> None:
    """Debug lines are not filtered."""
    for _ in range(5):
        log.say("x", level=logging.DEBUG)
    assert len(log.lines) == 5


def test_memory_is_bounded(log: _Log) -> None:
    """Only the latest messages are remembered."""
    for number in range(3 * MOST_MESSAGES):
        log.say("m" * (number % 190) + chr(1000 + number))
    assert len(log.repeats._messages) <= MOST_MESSAGES


def test_the_log_holds_back_repeated_messages() -> None:
    """A repeated message of a library and of the worker are one line each."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(log_format="json"), stream)
    for number in range(1_000):
        logging.getLogger("aiokafka.cluster").error("Unable connect to node with id %s", number)
        structlog.stdlib.get_logger("streams.kafka").warning("writing fails", topic="t")
    assert len(stream.getvalue().splitlines()) == 2
