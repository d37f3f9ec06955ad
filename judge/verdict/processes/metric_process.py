"""Run a code metric in a child process, so that its code can neither block nor crash this one."""

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
"""Low priority, so that a process restarted at every call does not slow the worker."""
_MIB: Final = 1024 * 1024


class MetricProcess:
    """The child process of one metric; one call at a time.

    Args:
        bounds: Limits of the process.
        name: The metric's name.
    """

    def __init__(self, bounds: OwnProcess, *, name: str) -> None:
        self._bounds = bounds
        memory = bounds.memory_mb * _MIB
        # Loaded data may fill the limit and stays.
        limits = ChildLimits(memory, 2 * memory, NICENESS, bounds.first)
        self._child = Child(limits, name=f"metric-{name}")

    async def call(self, function: Callable[[JudgeTask], T], task: JudgeTask) -> T:
        """Call a function with a task in the process.

        Raises:
            EventError: `metric_error`: it exceeded a limit or ended the process; or raised by the function.
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
