"""A message that is repeated is written when it begins, once a minute, and when it has ended."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from streams.settings import TelemetrySettings
from streams.telemetry.logs import set_up_logs
from streams.telemetry.repeats import MOST_MESSAGES, VARIANTS, Repeats


class _Log:
    """A logger behind the filter, with a clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.repeats = Repeats(now=lambda: self.seconds)
        self.lines: list[str] = []

    def say(self, message: object, *args: object, level: int = logging.WARNING) -> None:
        record = logging.LogRecord("aiokafka", level, "", 0, message, args, None)
        if self.repeats.filter(record):
            self.lines.append(_text(record))

    def ends(self) -> list[str]:
        return [_text(record) for record in self.repeats.ended()]


def _text(record: logging.LogRecord) -> str:
    return json.dumps(record.msg) if isinstance(record.msg, dict) else record.getMessage()


@pytest.fixture
def log() -> _Log:
    return _Log()


def test_a_flood_of_a_minute_and_a_half_is_three_lines(log: _Log) -> None:
    """100 lines a second for 90 s, with another node each time: the first, one after a minute, one at the
    end.
    """
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


def test_what_comes_once_a_while_is_written_each_time(log: _Log) -> None:
    """Silent for more than a minute, it restarts; nobody has to be told of an end."""
    for minute in range(3):
        log.seconds = minute * 70.0
        log.say("broker %s is away", 1)
    assert log.lines == ["broker 1 is away"] * 3
    log.seconds += 61
    assert log.ends() == []


def test_different_messages_do_not_hold_each_other_back(log: _Log) -> None:
    """By template and level."""
    log.say("a %s", 1)
    log.say("b %s", 1)
    log.say("a %s", 1, level=logging.ERROR)
    assert log.lines == ["a 1", "b 1", "a 1"]


def test_numbers_and_addresses_in_a_finished_text_tell_nothing_apart(log: _Log) -> None:
    """As asyncio writes it."""
    log.say("Task 12 at 0x7f3a was destroyed")
    log.say("Task 13 at 0x7f3b was destroyed")
    assert len(log.lines) == 1


def test_lines_of_our_own_with_other_fields_are_news_up_to_a_bound(log: _Log) -> None:
    """The same event at 100 offsets is written 20 times; the same at one offset once; alerts always."""
    for offset in range(100):
        log.say({"event": "record skipped", "offset": offset, "timestamp": str(offset)})
        log.say({"event": "topic refused", "topic": "t", "timestamp": str(offset)})
        log.say({"event": "alert", "summary": "down"})
    said = [json.loads(line)["event"] for line in log.lines]
    assert said.count("record skipped") == VARIANTS
    assert said.count("topic refused") == 1
    assert said.count("alert") == 100


def test_debug_holds_nothing_back(log: _Log) -> None:
    """Who asks for everything gets it."""
    for _ in range(5):
        log.say("x", level=logging.DEBUG)
    assert len(log.lines) == 5


def test_memory_is_bounded(log: _Log) -> None:
    """Of any number of different messages only the latest are known."""
    for number in range(3 * MOST_MESSAGES):
        log.say("m" * (number % 190) + chr(1000 + number))
    assert len(log.repeats._messages) <= MOST_MESSAGES


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(log_format="json"), stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_the_worker_s_log_holds_back_whoever_repeats(stream: io.StringIO) -> None:
    """A library's message and one of ours, a thousand times each: two lines."""
    for number in range(1_000):
        logging.getLogger("aiokafka.cluster").error("Unable connect to node with id %s", number)
        structlog.stdlib.get_logger("streams.kafka").warning("writing fails", topic="t")
    assert len(stream.getvalue().splitlines()) == 2
