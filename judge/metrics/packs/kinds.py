"""Results that a judge chooses: a boolean, or one of several labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judge.errors import InvalidVerdictError, PromptPackError
from schemas import ResultKind

MAX_LABELS = 20
MAX_LABEL_CHARS = 60
MAX_NUMBER = 100
"""Largest number of a label, because each number is a time series."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Values that a judge chooses from, each with a number; higher is better.

    Args:
        numbers: The number of each value, by its JSON text: `true`, `false`, or a quoted label.
        is_boolean: Whether the values are true and false.
    """

    numbers: Mapping[str, int]
    is_boolean: bool

    @property
    def kind(self) -> ResultKind:
        """`boolean` or `label`."""
        return "boolean" if self.is_boolean else "label"

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as JSON."""
        return tuple(json.loads(written) for written in self.numbers)

    @property
    def by_label(self) -> Mapping[str, int]:
        """The number of each label, or of `true` and `false`."""
        return {
            shown: self.numbers[written] for written, shown in zip(self.numbers, self._shown, strict=True)
        }

    @property
    def _shown(self) -> tuple[str, ...]:
        return tuple(self.numbers) if self.is_boolean else self.labels

    @property
    def score_range(self) -> tuple[int, int]:
        """Lowest and highest number."""
        return min(self.numbers.values()), max(self.numbers.values())

    def number(self, value: Any) -> int:
        """Return the number of a chosen value.

        Raises:
            InvalidVerdictError: It is not one of the values.
        """
        written = json.dumps(value, ensure_ascii=False) if isinstance(value, bool | str) else ""
        if written not in self.numbers:
            known = ", ".join(self.numbers)
            raise InvalidVerdictError(
                f'"score" must be one of {known}, got {json.dumps(value, default=str)[:60]}'
            )
        return self.numbers[written]


def read_choice(given: Any, *, good: Any = None) -> Choice:
    """Parse a pack's `result`.

    Args:
        given: `boolean`; or labels, best first, or a mapping of labels to whole numbers.
        good: For `boolean`: the good value, which has the number 1; default: true.

    Raises:
        PromptPackError: `given` is invalid.
    """
    if given == "boolean":
        if good is not None and not isinstance(good, bool):
            raise PromptPackError(f"good must be true or false, got {good!r:.60}")
        numbers = {"true": 0, "false": 1} if good is False else {"true": 1, "false": 0}
        return Choice(numbers, is_boolean=True)
    if good is not None:
        raise PromptPackError("good is for `result: boolean`; give the numbers of labels in their mapping")
    labels = _numbered(given)
    if not isinstance(labels, Mapping) or not 2 <= len(labels) <= MAX_LABELS or len(labels) != len(given):
        raise PromptPackError(
            f"result must be number, boolean, pairwise, or 2 to {MAX_LABELS} different "
            f"labels, best first or with a number each, got {given!r:.60}"
        )
    for label, number in labels.items():
        if not isinstance(label, str) or not label.strip() or len(label) > MAX_LABEL_CHARS:
            raise PromptPackError(
                f"a label must be a text of at most {MAX_LABEL_CHARS} characters, got {label!r:.80}"
            )
        if type(number) is not int or not 0 <= number <= MAX_NUMBER:
            raise PromptPackError(
                f"the number of label {label} must be whole, from 0 to {MAX_NUMBER}, got {number!r:.60}"
            )
    if len(set(labels.values())) < 2:
        raise PromptPackError("the labels need at least two different numbers: more is better")
    return Choice(
        {json.dumps(label, ensure_ascii=False): number for label, number in labels.items()},
        is_boolean=False,
    )


def _numbered(given: Any) -> Any:
    """Return labels with their numbers (a list has the best first); other values unchanged."""
    if isinstance(given, list | dict) and any(isinstance(label, bool) for label in given):
        raise PromptPackError(
            'result has a label that YAML reads as true or false; put it in quotes ("yes", "no"), '
            "or write result: boolean"
        )
    if not isinstance(given, list):
        return given
    return {label: len(given) - 1 - place for place, label in enumerate(given) if isinstance(label, str)}
