"""Asks a code metric in a process of its own, so that its code can neither block nor end this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from judge.errors import EventError
from judge.metric import OwnProcess
from judge.verdict.processes.child import (
    Child,
    ChildEndedError,
    ChildFullError,
    ChildLateError,
    ChildLimits,
    UnknownCallError,
)
from schemas import JudgeTask

T = TypeVar("T")

NICENESS: Final = 10
"""A process that is restarted with every call takes no time from the worker."""
_MIB: Final = 1024 * 1024


class MetricProcess:
    """The process of one metric, one call at a time.

    Args:
        bounds: Of the process.
        name: The metric's name.
    """

    def __init__(self, bounds: OwnProcess, *, name: str) -> None:
        self._bounds = bounds
        memory = bounds.memory_mb * _MIB
        # What it has loaded may fill its bound, and stays.
        limits = ChildLimits(memory, 2 * memory, NICENESS, bounds.first)
        self._child = Child(limits, name=f"metric-{name}")

    async def call(self, function: Callable[[JudgeTask], T], task: JudgeTask) -> T:
        """Call a function of a task in the process.

        Raises:
            EventError: `metric_error`: it took too long, needed too much memory or ended the process; or what
                the function raises.
        """
        seconds, memory = self._bounds.seconds, self._bounds.memory_mb
        try:
            value: T = await self._child.call(seconds, function, task)
        except ChildLateError:
            detail = f"it took longer than {seconds:g} s; make it faster or raise seconds"
        except ChildFullError:
            detail = f"it needed more than {memory} MiB of memory; lower its need or raise memory_mb"
        except ChildEndedError as error:
            detail = f"{error}; correct it"
        except UnknownCallError as error:
            detail = f"it cannot be sent to its process: {error}"
        else:
            return value
        raise EventError("metric_error", detail)

    def close(self) -> None:
        """End the process."""
        self._child.close()
