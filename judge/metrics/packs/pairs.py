"""Two answers to one question: the event's hash says which is shown first, so that position bias cancels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from judge.metric import Inputs
from judge.metrics.packs.kinds import Choice

PAIR: Final = Choice({'"answer"': 2, '"tie"': 1, '"other"': 0}, is_boolean=False)
"""What is published: the better one, or that there is none."""
SAID: Final = Choice({'"first"': 2, '"tie"': 1, '"second"': 0}, is_boolean=False)
"""What the judge says: `first` is what stands in the place of the answer."""
_ANSWERS: Final = ("answer", "other")


def is_swapped(event_id: str) -> bool:
    """Whether the other answer takes the answer's place: for half of all events, always the same ones."""
    return bool(hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).digest()[0] & 1)


def as_shown(inputs: Inputs, *, swapped: bool) -> Inputs:
    """The texts in the places in which the judge sees them."""
    if not swapped:
        return inputs
    return replace(inputs, answer=inputs.other_answer or "", other_answer=inputs.answer)


def as_meant(verdict: Mapping[str, Any], *, swapped: bool) -> dict[str, Any]:
    """The judge's verdict with `answer`, `other` or `tie` as its score, and which of the two it saw first.

    Raises:
        InvalidVerdictError: It says neither `first`, `second` nor `tie`.
    """
    place = {2: 0, 0: 1}.get(SAID.number(verdict["score"]))
    order = _ANSWERS[::-1] if swapped else _ANSWERS
    return {**verdict, "score": "tie" if place is None else order[place], "first": order[0]}
