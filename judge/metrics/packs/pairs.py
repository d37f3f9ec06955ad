"""Pairwise comparison: the event's hash decides which answer comes first, so that position bias cancels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from judge.metric import Inputs
from judge.metrics.packs.kinds import Choice

PAIR: Final = Choice({'"answer"': 2, '"tie"': 1, '"other"': 0}, is_boolean=False)
"""Published values: the better answer, or a tie."""
SAID: Final = Choice({'"first"': 2, '"tie"': 1, '"second"': 0}, is_boolean=False)
"""The judge's values: `first` is the answer shown first."""
_ANSWERS: Final = ("answer", "other")


def is_swapped(event_id: str) -> bool:
    """Return whether the answers are swapped: for half of all events, decided by a hash."""
    return bool(hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).digest()[0] & 1)


def as_shown(inputs: Inputs, *, swapped: bool) -> Inputs:
    """Return the texts in the order shown to the judge."""
    if not swapped:
        return inputs
    return replace(inputs, answer=inputs.other_answer or "", other_answer=inputs.answer)


def as_meant(verdict: Mapping[str, Any], *, swapped: bool) -> dict[str, Any]:
    """Return the verdict with `answer`, `other` or `tie` as score, and which answer was shown first.

    Raises:
        InvalidVerdictError: Its score is not `first`, `second` or `tie`.
    """
    place = {2: 0, 0: 1}.get(SAID.number(verdict["score"]))
    order = _ANSWERS[::-1] if swapped else _ANSWERS
    return {**verdict, "score": "tie" if place is None else order[place], "first": order[0]}
