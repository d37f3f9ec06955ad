"""`judgestream` with a wall clock that jumps: `python -m tests.chaos.jumping_clock worker --config FILE`.
SIGUSR1 sets it forward by an hour, SIGUSR2 back by a day. The monotonic clock continues, as when an operator
or NTP sets the clock.
"""

from __future__ import annotations

import datetime as dt
import importlib
import signal
import sys
import time
from typing import Any, Final, Self

from tests.integration.tuning import tune_process

FORWARD_SECONDS: Final = 3_600.0
BACK_SECONDS: Final = 86_400.0
JUMPED: Final = "the clock was set to"
"""Logged at each jump, with the time that a module of the worker then reads."""
_ROOMS: Final = ("streams.", "judge.", "schemas.")
_real_time = time.time


class _Clock:
    offset_seconds = 0.0


def _wall_seconds() -> float:
    return _real_time() + _Clock.offset_seconds


class _AnyDatetime(type(dt.datetime)):  # type: ignore[misc] # a metaclass of a class of C
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, dt.datetime)


class JumpingDatetime(dt.datetime, metaclass=_AnyDatetime):
    """Replaces `datetime` in modules that read the time; its results are plain datetimes."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Self:
        seen: Any = dt.datetime.fromtimestamp(_wall_seconds(), tz)
        return seen  # type: ignore[no-any-return] # as above


def _jump(number: int, _frame: object) -> None:
    _Clock.offset_seconds += FORWARD_SECONDS if number == signal.SIGUSR1 else -BACK_SECONDS
    seen = vars(sys.modules["streams.worker.worker"])["datetime"].now(dt.UTC)
    sys.stderr.write(f"{JUMPED} {seen.isoformat()}\n")


def main() -> None:
    time.time = _wall_seconds
    tune_process()
    importlib.import_module("streams.worker.run")
    run = importlib.import_module("streams.cli.main").run
    for name, module in tuple(sys.modules.items()):
        if name.startswith(_ROOMS) and getattr(module, "datetime", None) is dt.datetime:
            vars(module)["datetime"] = JumpingDatetime
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, _jump)
    sys.exit(run())


if __name__ == "__main__":
    main()
