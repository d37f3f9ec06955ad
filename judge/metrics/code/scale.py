"""Possible values of a code metric, and their outcomes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from judge.errors import EventError
from judge.metric import ScoredOutcome
from judge.metrics.packs.kinds import Choice, read_choice

MAX_REASON_CHARS: Final = 2_000
MAX_SHOWN_CHARS: Final = 80

Result = Literal["number", "integer", "boolean"] | Sequence[str] | dict[str, int]
"""Kinds of result: a number, a whole number, a boolean, or labels, best first or with a number each."""


@dataclass(frozen=True, slots=True)
class Score:
    """Result of a function of your own with a reason; use it if the number alone is not enough.

    Args:
        value: The number, the boolean or the label.
        reason: Reason in one sentence; published as the verdict's justification.
    """

    value: float | bool | str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """The possible values of a metric.

    Args:
        score_range: Lowest and highest score.
        choice: The choices; None: a number.
        is_whole: Whether numbers are whole.
    """

    score_range: tuple[float, float]
    choice: Choice | None = None
    is_whole: bool = False

    def outcome(self, value: Any, *, reason: str = "", evidence: Any = None) -> ScoredOutcome:
        """Return the outcome of a value.

        Raises:
            EventError: `metric_error`: the value is not on the scale.
        """
        reason = reason[:MAX_REASON_CHARS]
        if self.choice is not None:
            written = json.dumps(value, ensure_ascii=False) if isinstance(value, bool | str) else ""
            if written not in self.choice.numbers or not isinstance(value, bool | str):
                raise self._refusal(value, f"one of {', '.join(self.choice.numbers)}")
            verdict = {"score": value, "justification": reason}
            number, kind = self.choice.numbers[written], self.choice.kind
            return ScoredOutcome(verdict, number, kind=kind, value=value, evidence=evidence)
        low, high = self.score_range
        if not isinstance(value, int | float) or not low <= value <= high:
            raise self._refusal(value, f"a number from {low:g} to {high:g}")
        if not self.is_whole:
            number_ = float(value)
            return ScoredOutcome.of_number(
                number_, {"score": number_, "justification": reason}, evidence=evidence
            )
        if int(value) != value:
            raise self._refusal(value, f"a whole number from {low:g} to {high:g}")
        return ScoredOutcome({"score": int(value), "justification": reason}, int(value), evidence=evidence)

    def _refusal(self, value: object, wanted: str) -> EventError:
        shown = repr(value)
        shown = shown if len(shown) <= MAX_SHOWN_CHARS else f"{shown[:MAX_SHOWN_CHARS]}…"
        return EventError(
            "metric_error", f"the metric must give {wanted}, got {type(value).__name__} {shown}; correct it"
        )


def read_scale(result: Any, score_range: tuple[float, float]) -> Scale:
    """Return the scale of a function's results.

    Args:
        result: `number`, `integer`, `boolean`, or labels as a prompt pack names them.
        score_range: Lowest and highest score of a number.

    Raises:
        PromptPackError: `result` is invalid.
    """
    if result in ("number", "integer"):
        return Scale(score_range, is_whole=result == "integer")
    choice = read_choice(result)
    return Scale(choice.score_range, choice)


def yes_or_no(*, good: bool) -> Scale:
    """Return the scale of a boolean; the good value has the number 1."""
    choice = read_choice("boolean", good=good)
    return Scale(choice.score_range, choice)
