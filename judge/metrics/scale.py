"""Scales: the values that a metric can give, how a judge or a function writes them, and their outcomes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from judge.errors import EventError, PromptPackError
from judge.metric import ScoredOutcome
from judge.metrics.replies import whole_number
from schemas import ResultKind

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
    """The possible values of a metric."""

    score_range: tuple[float, float]
    """Lowest and highest score, inclusive."""
    kind: ResultKind = "integer"
    numbers: Mapping[bool | str, int] = field(default_factory=dict)
    """The number of each label, or of true and false; higher is better. Empty for numbers."""

    @property
    def labels(self) -> Mapping[str, int]:
        """The number of each label, or of `true` and `false`; empty if scores are numbers."""
        if self.kind == "boolean":
            return {json.dumps(value): number for value, number in self.numbers.items()}
        return {str(value): number for value, number in self.numbers.items()}

    @property
    def by_json(self) -> Mapping[str, int]:
        """The number of each value, by its JSON text."""
        return {json.dumps(value, ensure_ascii=False): number for value, number in self.numbers.items()}

    def value(self, given: object) -> bool | float | str:
        """Return a value on the scale, whole numbers as int; 5.0 and "5" are 5, "0.5" is 0.5.

        Raises:
            OffScaleError: It is not on the scale.
        """
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
        """Return the outcome of a value as `value` returns it, with further fields of the outcome."""
        if self.numbers:
            number = self.numbers[value]  # type: ignore[index]  # a bool or a str
            return ScoredOutcome(verdict, number, kind=self.kind, value=value, **evidence)
        if self.kind == "integer":
            return ScoredOutcome(verdict, int(value), **evidence)
        return ScoredOutcome.of_number(float(value), verdict, **evidence)


def outcome_on(scale: Scale, value: object, reason: str, evidence: Any) -> ScoredOutcome:
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


def yes_or_no(*, good: bool = True) -> Scale:
    """Return the scale of a boolean; the good value has the number 1."""
    return Scale((0, 1), "boolean", {True: int(good), False: int(not good)})


def read_scale(result: Any, score_range: tuple[float, float], *, good: Any = None) -> Scale:
    """Return the scale of a metric's results.

    Args:
        result: A `ResultType`, as a prompt pack or a function's settings name it.
        score_range: Lowest and highest score of a number.
        good: For `boolean`: the good value, which has the number 1; default: true.

    Raises:
        PromptPackError: The result is invalid.
    """
    if result == "boolean":
        if good is not None and not isinstance(good, bool):
            raise PromptPackError(f"good must be true or false, got {good!r:.60}")
        return yes_or_no(good=good is not False)
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
    """Return labels with their numbers; a list has the best first."""
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
    """Return a score range, given as a pair or as a mapping with `min` and `max`.

    Args:
        is_number: Whether scores and ends need not be whole numbers.

    Raises:
        PromptPackError: It is invalid or too wide.
    """
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
