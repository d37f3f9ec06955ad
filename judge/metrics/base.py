"""What metrics share: their constant facts, built-in prompts, scales, and the findings of verification."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from judge.chat import ChatRequest, ResponseSchema
from judge.errors import EventError, InvalidVerdictError, JudgeConfigurationError, PromptPackError
from judge.metric import Inputs, Mode, Outcome, OwnProcess, ScoredOutcome, UnscoredOutcome
from judge.metrics.prompting import built_in_hash, built_in_messages, load_prompt, schema_hash
from judge.metrics.replies import whole_number
from judge.text.normal import quoted
from judge.text.passages import TextPart, contradiction_between
from judge.text.tags import MAX_PATTERN_CHARS, compile_pattern
from schemas import Correction, CorrectionKind, JudgeTask, QAEvent, ResultKind, Suspicion, SuspicionKind
from schemas.base import EventField

if TYPE_CHECKING:
    from judge.metrics.packs.pack import PromptPack

MAX_REASON_CHARS: Final = 2_000
MAX_SHOWN_CHARS: Final = 80
MAX_LABELS: Final = 20
MAX_LABEL_CHARS: Final = 60
MAX_LABEL_NUMBER: Final = 100
MAX_SCORES: Final = 101
"""Limit of possible whole scores, because each is a time series."""
MAX_SCORE: Final = 1000
"""Largest whole score. The smallest is 0: sums of scores are Prometheus counters and must not fall."""
MAX_NUMBER: Final = 1e9
"""Largest score if scores need not be whole numbers; these are counted in ten buckets."""
_NUMBER = re.compile(r"\s*-?[0-9]{1,15}(?:\.[0-9]{1,15})?\s*", re.ASCII)

ResultType = Literal["number", "integer", "boolean"] | Sequence[str] | dict[str, int]
"""A number, a whole number, a boolean, or labels, best first or with a number each."""


class OffScaleError(ValueError):
    """A value is not on the scale; the text says what is: "a whole number from 1 to 5"."""


@dataclass(frozen=True, slots=True)
class Scale:
    score_range: tuple[float, float]
    kind: ResultKind = "integer"
    numbers: Mapping[bool | str, int] = field(default_factory=dict)
    """The number of each label, or of true and false; higher is better. Empty for numbers."""

    @property
    def labels(self) -> Mapping[str, int]:
        if self.kind == "boolean":
            return self.by_json
        return {str(value): number for value, number in self.numbers.items()}

    @property
    def by_json(self) -> Mapping[str, int]:
        return {json.dumps(value, ensure_ascii=False): number for value, number in self.numbers.items()}

    def value(self, given: object) -> bool | float | str:
        """Return a value on the scale, else OffScaleError; 5.0 and "5" are 5, "0.5" is 0.5."""
        low, high = self.score_range
        if self.numbers:
            wanted = bool if self.kind == "boolean" else str
            if isinstance(given, wanted) and given in self.numbers:
                return given
            raise OffScaleError(f"one of {', '.join(self.by_json)}")
        if self.kind == "integer":
            whole = whole_number(given)
            if whole is None or not low <= whole <= high:
                raise OffScaleError(f"a whole number from {low:g} to {high:g}")
            return whole
        number = float(given) if isinstance(given, str) and _NUMBER.fullmatch(given) else given
        if isinstance(number, bool) or not isinstance(number, int | float) or not low <= number <= high:
            raise OffScaleError(f"a number from {low:g} to {high:g}")
        return float(number)

    def outcome(
        self, value: bool | float | str, verdict: Mapping[str, Any], **evidence: Any
    ) -> ScoredOutcome:
        if self.numbers:
            number = self.numbers[value]  # type: ignore[index]  # a bool or a str
            return ScoredOutcome(verdict, number, kind=self.kind, value=value, **evidence)
        if self.kind == "integer":
            return ScoredOutcome(verdict, int(value), **evidence)
        return ScoredOutcome.of_number(float(value), verdict, **evidence)


def outcome_on(scale: Scale, value: object, reason: str, evidence: Any = None) -> ScoredOutcome:
    """Return the outcome of a value; EventError (`metric_error`) if it is not on the scale."""
    given = value
    if not scale.numbers:  # a number is not read from a text, and True is 1
        given = float(value) if isinstance(value, bool) else None if isinstance(value, str) else value
    try:
        score = scale.value(given)
    except OffScaleError as error:
        shown = repr(value)
        shown = shown if len(shown) <= MAX_SHOWN_CHARS else f"{shown[:MAX_SHOWN_CHARS]}…"
        raise EventError(
            "metric_error", f"the metric must give {error}, got {type(value).__name__} {shown}; correct it"
        ) from error
    verdict = {"score": score, "justification": reason[:MAX_REASON_CHARS]}
    return scale.outcome(score, verdict, evidence=evidence)


def read_pattern(pattern: str, name: str, most: int = MAX_PATTERN_CHARS) -> Any:
    """Compile a pattern that the settings give under a name; else JudgeConfigurationError."""
    try:
        return compile_pattern(pattern, name, most)
    except ValueError as error:
        raise JudgeConfigurationError(str(error)) from error


def read_scale(result: Any, score_range: tuple[float, float], *, good: Any = None) -> Scale:
    """Return the scale of a `ResultType`; `good`: the value of a boolean with the number 1, default true."""
    if result == "boolean":
        if good is not None and not isinstance(good, bool):
            raise PromptPackError(f"good must be true or false, got {good!r:.60}")
        return Scale((0, 1), "boolean", {True: int(good is not False), False: int(good is False)})
    if good is not None:
        raise PromptPackError("good is for `result: boolean`; give the numbers of labels in their mapping")
    if result in ("number", "integer"):
        return Scale(score_range, "number" if result == "number" else "integer")
    labels = _numbered(result)
    for label, number in labels.items():
        if not isinstance(label, str) or not label.strip() or len(label) > MAX_LABEL_CHARS:
            raise PromptPackError(
                f"a label must be a text of at most {MAX_LABEL_CHARS} characters, got {label!r:.80}"
            )
        if type(number) is not int or not 0 <= number <= MAX_LABEL_NUMBER:
            raise PromptPackError(
                f"the number of label {label} must be whole, from 0 to {MAX_LABEL_NUMBER}, got {number!r:.60}"
            )
    if len(set(labels.values())) < 2:
        raise PromptPackError("the labels need at least two different numbers: more is better")
    return Scale((min(labels.values()), max(labels.values())), "label", labels)


def _numbered(result: Any) -> dict[Any, Any]:
    if isinstance(result, list | dict) and any(isinstance(label, bool) for label in result):
        raise PromptPackError(
            'result has a label that YAML reads as true or false; put it in quotes ("yes", "no"), '
            "or write result: boolean"
        )
    labels = result
    if isinstance(result, list) and all(isinstance(label, str) for label in result):
        labels = dict(zip(result, reversed(range(len(result))), strict=True))
    if not isinstance(labels, dict) or not 2 <= len(labels) <= MAX_LABELS or len(labels) != len(result):
        raise PromptPackError(
            f"result must be number, boolean, pairwise, or 2 to {MAX_LABELS} different "
            f"labels, best first or with a number each, got {result!r:.60}"
        )
    return labels


def read_score_range(value: Any, *, is_number: bool = False) -> tuple[float, float]:
    """Return a range, given as a pair or with `min` and `max`; of whole numbers unless `is_number`."""
    ends: Any = [value.get("min"), value.get("max")] if isinstance(value, Mapping) else value
    kinds, word = ((int, float), "numbers") if is_number else ((int,), "whole numbers")
    if not (isinstance(ends, list | tuple) and len(ends) == 2 and all(type(end) in kinds for end in ends)):
        raise PromptPackError(
            f"score_range must be two {word} such as [1, 5], from a lower to a higher, got {value!r:.80}"
        )
    low, high = ends
    most, bound = (MAX_NUMBER, "") if is_number else (MAX_SCORE, f" and contain at most {MAX_SCORES} scores")
    if not 0 <= low < high <= most or (not is_number and high - low >= MAX_SCORES):
        raise PromptPackError(
            f"score_range must go from a lower to a higher number within 0..{most:g}{bound}, "
            f"got {list(ends)!r:.80}"
        )
    return (float(low), float(high)) if is_number else (low, high)


MAX_NAMED = 8


@dataclass(kw_only=True, eq=False)  # metrics are keys
class BaseMetric(ABC):
    """The constant facts of a metric; a subclass adds `prepare`, and `interpret` if it asks a judge.

    A class that an entry point of `judgestream.metrics` names is built with its name and its `options`.
    """

    options: ClassVar[tuple[str, ...]] = ()
    """Settings that its constructor takes: `pack`, `citation_pattern`, `without_citations`."""
    asks_judge: ClassVar[bool] = True
    """False if `mode` is always `code`: then it needs no endpoint and judges all events, like `python`."""
    needs: ClassVar[tuple[EventField, ...]] = ()
    """Fields that an event needs, where the metric is on by default (`BUILT_IN`)."""

    name: str
    mode: Mode
    scale: Scale
    scoring_version: str
    prompt_hash: str = "none"
    schema_hash: str = "none"
    uses: tuple[str, ...] = ("question", "answer")
    """The texts of an event that it needs, by their names in `Inputs`."""
    process: OwnProcess | None = None
    """Limits of the child process that runs `prepare`; None: it runs in the worker's own."""

    @property
    def score_range(self) -> tuple[float, float]:
        return self.scale.score_range

    @property
    def labels(self) -> Mapping[str, int]:
        return self.scale.labels

    def select(self, event: QAEvent) -> Inputs:
        return Inputs.of(event, self.uses)

    @abstractmethod
    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome: ...

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:  # noqa: ARG002 - for those that ask a judge
        raise InvalidVerdictError("no judge is used")

    def score_of(self, said: object, scale: Scale | None = None) -> bool | float | str:
        """Return a judge's score; InvalidVerdictError if it is not on the scale, by default the metric's."""
        try:
            return (scale or self.scale).value(said)
        except OffScaleError as error:
            got = json.dumps(said, default=str)[:60]
            raise InvalidVerdictError(f'"score" must be {error}, got {got}') from None


class BuiltInMetric(BaseMetric):
    """A metric with a prompt of its own, which a pack may replace; the mode is then verbatim."""

    def __init__(
        self,
        name: str,
        scale: Scale,
        schema: ResponseSchema,
        scoring_version: str,
        pack: PromptPack | None = None,
        *,
        instructions: str | None = None,
    ) -> None:
        self.pack = pack
        self.instructions = instructions or load_prompt(f"{name}.evidence")
        self.response_schema = schema if pack is None else pack.options.response_schema
        super().__init__(
            name=name,
            mode="evidence" if pack is None else "verbatim",
            scale=scale,
            scoring_version=scoring_version,
            prompt_hash=built_in_hash(self.instructions) if pack is None else pack.hash,
            schema_hash=schema_hash(self.response_schema),
        )

    def request(self, sections: Mapping[str, str], *, max_output_tokens: int = 4096) -> ChatRequest:
        messages = built_in_messages(self.instructions, sections)
        return ChatRequest(messages, self.response_schema, max_output_tokens)


@dataclass
class Findings:
    """Findings of one verdict: corrections lower the score, suspicions only mark the result."""

    corrections: list[Correction] = field(default_factory=list)
    suspicions: list[Suspicion] = field(default_factory=list)
    missing_quotations: list[str] = field(default_factory=list)

    def scored(
        self,
        verdict: Mapping[str, Any],
        evidence: Any,
        exact: str | None = None,
        objection: str | None = None,
    ) -> ScoredOutcome:
        """Return the outcome of a whole score; `objection` is made if all quotations were found."""
        marks = tuple(self.corrections), tuple(self.suspicions), self.objection or objection
        return ScoredOutcome(verdict, verdict["score"], exact, evidence, *marks)

    def no_claims(self, evidence: Any) -> UnscoredOutcome:
        return UnscoredOutcome("no_claims", None, evidence, tuple(self.corrections), tuple(self.suspicions))

    @property
    def objection(self) -> str | None:
        """Message to the judge about quotations that are not in their text; None if all were found."""
        if not self.missing_quotations:
            return None
        named = "; ".join(self.missing_quotations[:MAX_NAMED])
        more = len(self.missing_quotations) - MAX_NAMED
        return (
            "these quotations are not in their text: "
            f"{named}{f'; and {more} more' if more > 0 else ''}. Copy each character by "
            "character from the text, in one piece, or correct what rests on it"
        )

    def correct(self, kind: CorrectionKind, detail: str) -> None:
        self.corrections.append(Correction(kind=kind, detail=detail))

    def contradict(self, where: str, narrow: TextPart, wide: TextPart, *, names: tuple[str, str]) -> bool:
        """Record that two texts with these names contradict each other; return whether they do."""
        against = contradiction_between(narrow, wide)
        if against is not None:
            sides = f"{names[0]} says {quoted(against.source)}, {names[1]} {quoted(against.stated)}"
            self.correct(against.kind, f"{where}: {sides}")
        return against is not None

    def suspect(self, kind: SuspicionKind, detail: str) -> None:
        self.suspicions.append(Suspicion(kind=kind, detail=detail))

    def not_found(self, where: str, quotation: str | None, text: str) -> None:
        """Record a quotation (None: missing) that is not in the text named, for the repair turn."""
        self.missing_quotations.append(
            f"{where}: no words of {text} are given"
            if quotation is None
            else f"{where} {quoted(str(quotation))} is not in {text}"
        )
