"""Parse a judge's reply into a model, with errors that tell the judge what to repair."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from judge.errors import InvalidVerdictError
from judge.metrics.replies.reply import extract_object, extract_verdict
from judge.text.printable import problems_of

MAX_TOLD = 5
"""Limit of mistakes listed in one error."""
_NUMBER = re.compile(r"\s*-?[0-9]{1,15}(?:\.[0-9]{1,15})?\s*", re.ASCII)
_WHOLE = re.compile(r"\s*-?[0-9]{1,9}(?:\.0{1,9})?\s*", re.ASCII)

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_evidence(model: type[ModelT], reply: str, *, key: str) -> ModelT:
    """Parse the object with `key` in a reply.

    Args:
        model: The object's model; undeclared keys are ignored.
        reply: The reply as the judge wrote it.
        key: A key that the object must have.

    Raises:
        InvalidVerdictError: There is no such object, or it is invalid; the detail names the path.
    """
    found = with_whole_score(extract_object(reply, key=key))
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise InvalidVerdictError("; ".join(problems_of(error, "reply", most=MAX_TOLD))) from error


def read_score(reply: str, score_range: tuple[float, float], *, is_number: bool = False) -> dict[str, Any]:
    """Return the verdict of a reply, with its score checked.

    Args:
        reply: The reply as the judge wrote it.
        score_range: Lowest and highest score.
        is_number: Whether the score need not be a whole number.

    Returns:
        The object; its `score` is a number in the range.

    Raises:
        InvalidVerdictError: There is no single verdict, or its score is invalid.
    """
    low, high = score_range
    verdict = extract_verdict(reply)
    if is_number:
        verdict["score"] = check_number(verdict["score"], low=low, high=high)
    else:
        verdict["score"] = check_score(verdict["score"], low=int(low), high=int(high))
    return verdict


def check_number(score: object, *, low: float, high: float) -> float:
    """Return the score as a number in its range; "0.5" is 0.5.

    Raises:
        InvalidVerdictError: It is not.
    """
    said = float(score) if isinstance(score, str) and _NUMBER.fullmatch(score) else score
    if isinstance(said, bool) or not isinstance(said, int | float) or not low <= said <= high:
        raise InvalidVerdictError(
            f'"score" must be a number from {low:g} to {high:g}, got {json.dumps(score, default=str)[:60]}'
        )
    return float(said)


def check_score(score: object, *, low: int, high: int) -> int:
    """Return the score as an integer in its range; 5.0 and "5" are 5.

    Raises:
        InvalidVerdictError: It is not.
    """
    whole = _whole(score)
    if whole is None or not low <= whole <= high:
        raise InvalidVerdictError(
            f'"score" must be a whole number from {low} to {high}, got {json.dumps(score, default=str)[:60]}'
        )
    return whole


def with_whole_score(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict with a score of 5.0 or "5" as integer."""
    whole = _whole(verdict.get("score"))
    return verdict if whole is None else {**verdict, "score": whole}


def _whole(score: object) -> int | None:
    if isinstance(score, str):
        return int(score.strip().partition(".")[0]) if _WHOLE.fullmatch(score) else None
    if isinstance(score, float):
        return int(score) if score.is_integer() else None
    return score if isinstance(score, int) and not isinstance(score, bool) else None
