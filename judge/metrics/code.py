"""Metrics without a judge: a table of checks, the similarity of embeddings, and a user's own function."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
import math
import re
import signal
import symtable
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal

import orjson
from rapidfuzz.distance import Indel

from judge.chat import ChatMessage, ChatRequest
from judge.errors import EventError, JudgeConfigurationError
from judge.metric import DEFAULT_MEMORY_MB, DEFAULT_SECONDS, Inputs, Outcome, OwnProcess, UnscoredOutcome
from judge.metrics.base import BaseMetric, ResultType, Scale, outcome_on, read_pattern, read_scale
from judge.metrics.prompting import short_hash
from judge.metrics.replies import json_validator
from judge.text.normal import is_blank, without_lone_surrogates
from judge.text.words import sentences, word_texts
from schemas import JudgeTask, QAEvent
from schemas.base import EventField

MAX_PATTERN_CHARS: Final = 1_000
_WILDCARD = re.compile(rb"(?m)^[^#\n]*\bimport[\s\\]*\*")
_compiled = partial(read_pattern, name="pattern", most=MAX_PATTERN_CHARS)

Finding = tuple[Any, str, Any]  # value, reason, evidence


def contains(
    text: str, texts: Sequence[str], need: Literal["any", "all"] = "all", *, ignore_case: bool = True
) -> Finding:
    searched = text.casefold() if ignore_case else text
    there = [one for one in texts if (one.casefold() if ignore_case else one) in searched]
    is_found = len(there) == len(texts) if need == "all" else bool(there)
    return is_found, f"{len(there)} of {len(texts)} texts found", {"found": there}


def regex(text: str, pattern: str) -> Finding:
    """Matched by RE2 in linear time, because text and pattern are untrusted."""
    # RE2 rejects lone surrogates; replaced one for one, so that offsets stay.
    match = _compiled(pattern).search(without_lone_surrogates(text))
    if match is None:
        return False, "does not match", None
    return True, "matches", {"start": match.start(), "end": match.end()}


def json_valid(answer: str, schema: str | None = None) -> Finding:
    """Return whether an answer is JSON, perhaps in a Markdown fence, and matches a schema (as JSON)."""
    try:
        document = orjson.loads(_unfenced(answer))
    except orjson.JSONDecodeError as error:
        return False, f"the answer is not JSON: {str(error)[:200]}", None
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - few need it

    try:
        breach = None if schema is None else next(json_validator(schema).iter_errors(document), None)
    except (Unresolvable, RecursionError) as failure:
        raise EventError("metric_error", f"the schema cannot be applied: {str(failure)[:300]}") from failure
    if breach is None:
        return True, "the answer is valid JSON", None
    where = "/".join(map(str, breach.absolute_path)) or "the document"
    return False, f"the answer violates the schema: {where}: {breach.message[:300]}", None


def length(text: str, unit: Literal["characters", "words", "sentences"] = "words") -> Finding:
    units: dict[str, Callable[[str], Any]] = {"words": word_texts, "sentences": sentences, "characters": str}
    count = len(units[unit](text))
    return float(count), f"{count} {unit}", {"value": float(count)}


def similarity(answer: str, reference: str) -> Finding:
    """2·L / (m + n): L is the longest common subsequence of m and n words (normalised Indel similarity)."""
    said, wanted = word_texts(answer), word_texts(reference)
    return Indel.normalized_similarity(said, wanted), f"{len(said)} words against {len(wanted)}", None


def number_of_label(text: str, label: str, factor: float = 1.0) -> Finding:
    try:
        number = float(text) * factor
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise EventError(
            "metric_error", f"label {label} must be a number, got {text[:60]!r}; correct the producer"
        )
    return number, f"label {label} is {text[:60]}", {"value": number}


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the table of checks: a function of the texts, then the options."""

    find: Callable[..., Finding]
    default_range: tuple[float, float] | None = None
    """The range of numbers, to which values are clipped; None: true and false."""
    uses: tuple[EventField, ...] | None = None
    """The texts that it examines; None: the one named by the option `of`."""


CHECKS: Final[Mapping[str, Check]] = {
    "regex": Check(regex),
    "contains": Check(contains),
    "json_valid": Check(json_valid, uses=("answer",)),
    "length": Check(length, (0, 1000)),
    "similarity": Check(similarity, (0.0, 1.0), ("answer", "reference")),
    "latency": Check(number_of_label, (0, 60), ()),
    "cost": Check(number_of_label, (0, 1), ()),
}


class CodeMetric(BaseMetric):
    """A metric decided by one of `CHECKS` on the text `of`; `good`: whether a match is good."""

    def __init__(
        self,
        name: str,
        check: str,
        *,
        score_range: tuple[float, float] | None = None,
        of: Literal["question", "answer", "reference"] = "answer",
        good: bool = True,
        **options: Any,
    ) -> None:
        self.check = CHECKS[check]
        self.arguments = options
        if "pattern" in options:
            _compiled(options["pattern"])
        if options.get("schema") is not None:
            try:
                json_validator(options["schema"])
            except ValueError as error:
                raise JudgeConfigurationError(f"schema is not a JSON Schema: {error}") from error
        own_range = self.check.default_range
        kind = "boolean" if own_range is None else "number"
        scale = read_scale(kind, score_range or own_range or (0, 1), good=None if own_range else good)
        version = short_hash(repr((check, of, scale, sorted(options.items()))))
        super().__init__(
            name=name,
            mode="code",
            scale=scale,
            scoring_version=f"code-2, {check}, {version}",
            uses=(of,) if self.check.uses is None else self.check.uses,
            # A child process if there is a JSON Schema, whose patterns may be slow.
            process=None if options.get("schema") is None else OwnProcess(),
        )

    def prepare(self, task: JudgeTask) -> Outcome:
        if "label" in self.arguments:
            texts = [task.labels.get(self.arguments["label"], "").strip()]
            is_missing = not texts[0]
        else:
            texts = [getattr(task, name) or "" for name in self.uses]
            # An empty answer alone is a text, too.
            is_missing = self.uses != ("answer",) and any(map(is_blank, texts))
        if is_missing:
            return UnscoredOutcome("missing_input")
        value, reason, evidence = self.check.find(*texts, **self.arguments)
        if self.check.default_range is not None:
            value = min(max(value, self.score_range[0]), self.score_range[1])
        if self.check.find is regex:
            reason = f"the {self.uses[0]} {reason}"
        return outcome_on(self.scale, value, reason, evidence)


class EmbeddingSimilarity(BaseMetric):
    """Cosine of the embeddings of answer and reference, from 0 to 1.

    Use it if an answer may state the reference in other words. A negative cosine counts as 0. The level of a
    good score depends on the model: for unrelated texts many give 0.2 and more.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            name=name,
            mode="evidence",
            scale=Scale((0.0, 1.0), "number"),
            scoring_version="embedding-cosine-1",
            uses=("answer", "reference"),
        )

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        if is_blank(task.reference) or is_blank(task.answer):
            return UnscoredOutcome("missing_input")
        messages = tuple(ChatMessage("user", text) for text in (task.answer, task.reference or ""))
        return ChatRequest(messages, max_output_tokens=0, embeds=True)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:  # noqa: ARG002 - the protocol's
        try:
            vectors = orjson.loads(reply)
            cosine, dimensions = float(vectors["cosine"]), int(vectors["dimensions"])
        except (ValueError, TypeError, KeyError):
            cosine, dimensions = math.nan, 0
        if not math.isfinite(cosine):
            raise EventError("invalid_verdict", "the endpoint gave no vectors; name an embedding model")
        reason = f"cosine {cosine:.4f} of two vectors of {dimensions} numbers"
        return outcome_on(self.scale, min(max(cosine, 0.0), 1.0), reason, {"cosine": cosine})


def _unfenced(answer: str) -> str:
    text = answer.strip()
    first, _, rest = text.partition("\n")
    if first.startswith("```") and rest.rstrip().endswith("```") and "`" not in first[3:]:
        return rest.rstrip()[:-3]
    return text


# Functions of users

TEXTS: Final = tuple(one.name for one in fields(Inputs))


@dataclass(frozen=True, slots=True)
class Score:
    """Result of a function of your own with a reason; use it if the number alone is not enough."""

    value: float | bool | str | None
    """The number, the boolean or the label; None: unscored."""
    reason: str = ""
    """Published as the verdict's justification."""


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
        # Even if the waiting process is gone, this one ends at its limit.
        signal.alarm(math.ceil(self.process.seconds if self.process else DEFAULT_SECONDS) + 1)
        try:
            shared = QAEvent.model_fields.keys() & JudgeTask.model_fields.keys()
            value = load(self.target)(QAEvent(**{name: getattr(task, name) for name in shared}))
            if inspect.isawaitable(value):
                value = asyncio.run(awaited(value))
            score = value if isinstance(value, Score) else Score(value)
            if score.value is None:
                return UnscoredOutcome("missing_input")
            return outcome_on(self.scale, _plain(score.value), str(score.reason))
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
        function: Callable[[QAEvent], Any] = attrgetter(name)(importlib.import_module(module))
    except MemoryError:
        raise
    except Exception as error:  # any error of its module
        raise EventError("metric_error", f"{target} cannot be imported: {_reason(error)}") from error
    return function


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | Fraction):
        return float(value)
    return value.item() if hasattr(value, "item") else value


async def awaited(value: Any) -> Any:
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
        table = symtable.symtable(code, origin, "exec")  # type: ignore[arg-type]  # bytes, too
    except (SyntaxError, ValueError) as error:
        raise JudgeConfigurationError(f"{origin} is not valid Python: {error}; correct it") from error
    tables = [table]
    for one in tables:  # a function may define global names
        tables += one.get_children()
        for symbol in one.get_symbols():
            is_own = symbol.get_name() == name and (one is table or symbol.is_global())
            if is_own and (symbol.is_assigned() or symbol.is_imported()):
                return True
    return _WILDCARD.search(code) is not None
