"""Lets a message through when it begins, once a minute while it is repeated, and says when it has ended.

A broker that is unavailable for a minute makes its clients write tens of thousands of lines, none of which
says more than the first one did.
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
"""How often a message that is repeated is let through, and how long it is silent when it counts as ended."""
VARIANTS: Final = 20
"""Lines of our own with the same event and different fields that pass in `EVERY_SECONDS`."""
MOST_MESSAGES: Final = 1_000
"""Different messages that are kept an eye on."""
_LOOK_SECONDS: Final = 5.0
_VARYING: Final = re.compile(r"0x[0-9a-f]+|\d+")
_TEMPLATE_CHARS: Final = 200


@dataclass(slots=True)
class _Repeated:
    """One message: what it was at first, and how often it was held back."""

    record: logging.LogRecord
    allowed: int
    began: float
    told: float
    seen: float
    passed: int = 1
    held_back: int = 0
    in_all: int = 1


class Repeats(logging.Filter):
    """A handler's filter. Lines of this project are identified by event and fields, others by template.

    Args:
        tell: Writes the line that tells a message's end, from a thread that lives while messages are held
            back; None leaves that to who calls `ended`.
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
        """Say whether a line is written; one that stands for others has their number in it."""
        if record.levelno <= logging.DEBUG:
            return True
        with self._lock:
            # Exactly this message, and (of our own, whose fields differ) this kind of message.
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
        """Give a line for each message that was held back and has not come again for `EVERY_SECONDS`."""
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
    """What a line is the same by, and how many of the same pass at first."""
    message: Any = record.msg
    if not isinstance(message, dict):
        # Some libraries write the whole message without arguments, with addresses and numbers in it.
        template = _VARYING.sub("#", str(message)[:_TEMPLATE_CHARS])
        return (((record.name, record.levelno, template), 1),)
    event = message.get("event")
    kind = (record.name, record.levelno, event)
    if event == "alert":
        return ()  # each is news
    fields = tuple(
        (name, repr(value))
        for name, value in sorted(message.items())
        if name not in {"timestamp", "exc_info"}
    )
    return (((*kind, fields), 1), (kind, VARIANTS))


def _add(record: logging.LogRecord, **numbers: int) -> None:
    """Put numbers into a line."""
    message: Any = record.msg
    if isinstance(message, dict):
        record.msg = {**message, **numbers}
    else:
        said = ", ".join(f"{name} {number}" for name, number in numbers.items())
        record.msg, record.args = f"{record.getMessage()} ({said})", None


def _last(known: _Repeated) -> logging.LogRecord:
    """The line that reports the end."""
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
