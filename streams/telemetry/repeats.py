"""Logs a repeated message at first and once per minute, and reports its end.

A broker that is unavailable for a minute makes its clients write tens of thousands of equal lines.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

EVERY_SECONDS: Final = 60.0
"""Interval at which a repeated message is logged, and silence after which it counts as ended."""
VARIANTS: Final = 20
"""Own lines with the same event and different fields that are logged per `EVERY_SECONDS`."""
MOST_MESSAGES: Final = 1_000
"""Maximum number of messages tracked."""
_LOOK_SECONDS: Final = 5.0
_VARYING: Final = re.compile(r"0x[0-9a-f]+|\d+")
_TEMPLATE_CHARS: Final = 200


@dataclass(slots=True)
class _Repeated:
    """A message: its first line, and the number of suppressed ones."""

    record: logging.LogRecord
    allowed: int
    began: float
    told: float
    seen: float
    passed: int = 1
    held_back: int = 0
    in_all: int = 1


class Repeats(logging.Filter):
    """A handler's filter for repeated lines.

    Own lines are identified by event and fields, others by template.

    Args:
        tell: Writes the line that reports a message's end, from a thread that runs while messages are
            suppressed; None: the caller uses `ended`.
        now: The monotonic clock, in seconds.
    """

    def __init__(
        self,
        tell: Callable[[logging.LogRecord], object] | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._tell = tell
        self._now = now
        self._messages: OrderedDict[Hashable, _Repeated] = OrderedDict()
        self._lock = threading.Lock()
        self._watching = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a line; add the number of suppressed ones to it."""
        if record.levelno <= logging.DEBUG:
            return True
        with self._lock:
            # This exact message and, for own lines, all lines of the same event.
            passes = all(self._passes(key, record, allowed) for key, allowed in _keys(record))
            if not passes and self._tell is not None and not self._watching:
                self._watching = True
                threading.Thread(target=self._tell_ends, name="log-repeats", daemon=True).start()
            return passes

    def _passes(self, key: Hashable, record: logging.LogRecord, allowed: int) -> bool:
        now, known = self._now(), self._messages.get(key)
        if known is None or now - known.seen > EVERY_SECONDS:
            self._messages[key] = _Repeated(record, allowed, now, now, now)
            self._messages.move_to_end(key)
            if len(self._messages) > MOST_MESSAGES:
                self._messages.popitem(last=False)
            return True
        known.seen = now
        known.in_all += 1
        if now - known.told >= EVERY_SECONDS:
            _add(record, repeated=known.held_back, seconds=round(now - known.told))
            known.told, known.passed, known.held_back = now, 1, 0
            return True
        if known.passed < known.allowed:
            known.passed += 1
            return True
        known.held_back += 1
        return False

    def ended(self) -> list[logging.LogRecord]:
        """Return a line for each suppressed message that has not recurred for `EVERY_SECONDS`."""
        with self._lock:
            now, lines = self._now(), []
            for key, known in tuple(self._messages.items()):
                if now - known.seen <= EVERY_SECONDS:
                    continue
                del self._messages[key]
                if known.in_all > known.allowed:
                    lines.append(_last(known))
            return lines

    def _tell_ends(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            for line in self.ended():
                if self._tell is not None:
                    self._tell(line)
            with self._lock:
                if not any(known.in_all > known.allowed for known in self._messages.values()):
                    self._watching = False
                    return


def _keys(record: logging.LogRecord) -> tuple[tuple[Hashable, int], ...]:
    """Return the keys that identify a line, each with the number logged before suppression."""
    message: Any = record.msg
    if not isinstance(message, dict):
        # Some libraries format the whole message, with addresses and numbers, without arguments.
        template = _VARYING.sub("#", str(message)[:_TEMPLATE_CHARS])
        return (((record.name, record.levelno, template), 1),)
    event = message.get("event")
    kind = (record.name, record.levelno, event)
    if event == "alert":
        return ()  # each is new
    fields = tuple(
        (name, repr(value))
        for name, value in sorted(message.items())
        if name not in {"timestamp", "exc_info"}
    )
    return (((*kind, fields), 1), (kind, VARIANTS))


def _add(record: logging.LogRecord, **numbers: int) -> None:
    """Add fields to a line."""
    message: Any = record.msg
    if isinstance(message, dict):
        record.msg = {**message, **numbers}
    else:
        said = ", ".join(f"{name} {number}" for name, number in numbers.items())
        record.msg, record.args = f"{record.getMessage()} ({said})", None


def _last(known: _Repeated) -> logging.LogRecord:
    """Return the line that reports the end."""
    first = known.record
    line = logging.makeLogRecord(first.__dict__)
    line.exc_info = line.exc_text = None
    line.created = time.time()
    seconds = round(known.seen - known.began)
    message: Any = first.msg
    if isinstance(message, dict):
        shown = {name: value for name, value in message.items() if name not in {"timestamp", "exc_info"}}
        line.msg = {**shown, "event": f"stopped repeating: {message.get('event')}"}
    else:
        line.msg, line.args = f"stopped repeating: {first.getMessage()}", None
    _add(line, times=known.in_all, seconds=seconds)
    return line
