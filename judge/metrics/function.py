"""A user's function as a metric, inspected without running its code."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import importlib
import inspect
import math
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final, Literal

from judge.errors import EventError, JudgeConfigurationError
from judge.metric import DEFAULT_MEMORY_MB, DEFAULT_SECONDS, OwnProcess
from schemas import JudgeTask, QAEvent
from schemas.base import EventField

EventText = EventField | Literal["fields"]
"""Texts that code may request; labels and ids are always available."""

TEXTS: Final[tuple[EventText, ...]] = (
    "question",
    "answer",
    "reference",
    "context",
    "messages",
    "tool_calls",
    "other_answer",
    "fields",
)


@dataclass(frozen=True, slots=True)
class Score:
    """Result of a function of your own with a reason; use it if the number alone is not enough.

    Args:
        value: The number, the boolean or the label.
        reason: Reason in one sentence; published as the verdict's justification.
    """

    value: float | bool | str | None
    reason: str = ""


@dataclass(frozen=True)
class Function:
    """A user's function from an event to a number, a boolean, a label, a `Score` or None (unscored).

    Args:
        target: `package.module:function`; the function may be asynchronous.
        uses: The texts that it receives, besides labels and ids.
        seconds: Time limit of one call, above 0; importing its module may take 60 s.
        memory_mb: Memory limit of its process, in MiB.

    Raises:
        JudgeConfigurationError: There is no such module, or it has no such function.
    """

    target: str
    uses: tuple[EventText, ...] = TEXTS
    seconds: float = DEFAULT_SECONDS
    memory_mb: int = DEFAULT_MEMORY_MB

    def __post_init__(self) -> None:
        _hash_of_module(self.target)

    @property
    def process(self) -> OwnProcess:
        """Limits of its process, which imports its module at start."""
        return OwnProcess(self.seconds, self.memory_mb, partial(load, self.target))

    @property
    def version(self) -> str:
        """Hash of the module's file, 12 hexadecimal digits."""
        return _hash_of_module(self.target)

    def call(self, task: JudgeTask) -> Score:
        """Call the function with the event of a task.

        Raises:
            EventError: `metric_error`: it cannot be imported, or raised an exception.
        """
        # Even if the waiting process is gone, this one ends at its limit.
        signal.alarm(math.ceil(self.seconds) + 1)
        try:
            value = load(self.target)(_event(task))
            if inspect.isawaitable(value):
                value = asyncio.run(_awaited(value))
            score = value if isinstance(value, Score) else Score(value)
            return Score(_plain(score.value), score.reason)
        except MemoryError:
            raise
        except Exception as error:  # any error is the function's
            raise EventError("metric_error", f"{self.target}: {_reason(error)}") from error
        finally:
            signal.alarm(0)


def load(target: str) -> Callable[[QAEvent], Any]:
    """Import a function; this runs its module's code.

    Raises:
        EventError: It cannot be imported.
    """
    module, _, name = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except MemoryError:
        raise
    except Exception as error:  # any error of its module
        raise EventError("metric_error", f"{target} cannot be imported: {_reason(error)}") from error
    function: Callable[[QAEvent], Any] = found
    return function


def _plain(value: Any) -> Any:
    """Return NumPy values, fractions and decimals as Python numbers or booleans."""
    if isinstance(value, Decimal | Fraction):
        return float(value)
    return value.item() if hasattr(value, "item") else value


async def _awaited(value: Any) -> Any:
    return await value


def _event(task: JudgeTask) -> QAEvent:
    """Rebuild the event from the texts in the task."""
    shared = QAEvent.model_fields.keys() & JudgeTask.model_fields.keys()
    return QAEvent(**{name: getattr(task, name) for name in shared})


def _reason(error: Exception) -> str:
    if isinstance(error, EventError):
        return error.detail
    try:
        return f"{type(error).__name__}: {error}"[:500]
    except Exception:  # noqa: BLE001 - the error is the function's own, and so are its words
        return type(error).__name__


@lru_cache(maxsize=64)
def _hash_of_module(target: str) -> str:
    """Return the hash of a function's file, found without importing anything."""
    module, _, name = target.partition(":")
    spec = _spec(module)
    if spec is None or spec.origin is None:
        raise JudgeConfigurationError(
            f"there is no module {module} on the import path; put it beside the settings file, install it, "
            "or set PYTHONPATH to its folder"
        )
    try:
        code = Path(spec.origin).read_bytes()
    except OSError:
        return "unknown"  # built-in, or in an archive
    if spec.origin.endswith(".py") and not _defines(code, name.partition(".")[0], spec.origin):
        raise JudgeConfigurationError(f"{spec.origin} defines no {name}; name a function of it")
    return hashlib.sha256(code).hexdigest()[:12]


def _spec(module: str) -> ModuleSpec | None:
    """Return a module's spec without importing its parent packages, unlike `importlib.util.find_spec`."""
    path: Any = None
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
        specs = (find(name, path, None) for find in finders if find is not None)
        spec = next((one for one in specs if one is not None), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and count < len(parts):
            return None
    return spec


def _defines(code: bytes, name: str, origin: str) -> bool:
    """Return whether a module's source defines a name; True if it has a wildcard import."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        raise JudgeConfigurationError(f"{origin} is not valid Python: {error}; correct it") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) in (name, "*"):
            return True
    return False
