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
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final

from judge.errors import EventError, JudgeConfigurationError
from judge.metric import DEFAULT_MEMORY_MB, DEFAULT_SECONDS, Inputs, Outcome, OwnProcess, UnscoredOutcome
from judge.metrics.base import BaseMetric, ResultType, Scale, outcome_on, read_scale
from judge.metrics.prompting import short_hash
from schemas import JudgeTask, QAEvent

TEXTS: Final = tuple(one.name for one in fields(Inputs))
"""The texts that a function receives, besides labels and ids."""


@dataclass(frozen=True, slots=True)
class Score:
    """Result of a function of your own with a reason; use it if the number alone is not enough.

    Args:
        value: The number, the boolean or the label.
        reason: Reason in one sentence; published as the verdict's justification.
    """

    value: float | bool | str | None
    reason: str = ""


class FunctionMetric(BaseMetric):
    """A metric decided by a user's function in a child process; see `python_metric`."""

    def __init__(
        self,
        name: str,
        target: str,
        scale: Scale,
        *,
        seconds: float = DEFAULT_SECONDS,
        memory_mb: int = DEFAULT_MEMORY_MB,
    ) -> None:
        self.target = target
        version = f"code-2, {_hash_of_module(target)}, {short_hash(repr((target, TEXTS, scale)))}"
        process = OwnProcess(seconds, memory_mb, partial(load, target))
        super().__init__(
            name=name, mode="code", scale=scale, scoring_version=version, uses=TEXTS, process=process
        )

    def prepare(self, task: JudgeTask) -> Outcome:
        score = self._call(task)
        if score.value is None:
            return UnscoredOutcome("missing_input")
        try:
            return outcome_on(self.scale, score.value, str(score.reason), None)
        except EventError as error:
            raise EventError("metric_error", f"{self.target}: {error.detail}") from error

    def _call(self, task: JudgeTask) -> Score:
        # Even if the waiting process is gone, this one ends at its limit.
        signal.alarm(math.ceil(self.process.seconds if self.process else DEFAULT_SECONDS) + 1)
        try:
            shared = QAEvent.model_fields.keys() & JudgeTask.model_fields.keys()
            value = load(self.target)(QAEvent(**{name: getattr(task, name) for name in shared}))
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


def python_metric(
    target: str,
    *,
    result: ResultType = "number",
    score_range: tuple[float, float] = (0.0, 1.0),
    name: str | None = None,
    seconds: float = DEFAULT_SECONDS,
    memory_mb: int = DEFAULT_MEMORY_MB,
) -> FunctionMetric:
    """Return a metric from a function of your own, for `Judge.score`; workers read it from the settings.

    Args:
        target: `package.module:function`; it runs in a child process.
        result: Its result: a number or whole number within `score_range`, a boolean, or labels, best first or
            with a number each.
        score_range: Lowest and highest score of a number.
        name: The metric's name; default: the function's.
        seconds: Time limit of one call, above 0.
        memory_mb: Memory limit of its process, in MiB.

    Raises:
        JudgeConfigurationError: There is no such module, or it has no such function.
        PromptPackError: `result` is invalid.
    """
    own = target.rpartition(":")[2].rpartition(".")[2]
    scale = read_scale(result, score_range)
    return FunctionMetric(name or own, target, scale, seconds=seconds, memory_mb=memory_mb)


def load(target: str) -> Callable[[QAEvent], Any]:
    """Import a function; this runs its module's code."""
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
        specs = (finder.find_spec(name, path, None) for finder in sys.meta_path)
        spec = next((one for one in specs if one is not None), None)
        path = None if spec is None else spec.submodule_search_locations
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
