"""Reading a judge's reply into a model, with errors that tell the judge what to mend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from judge.errors import InvalidVerdictError
from judge.metrics.reply import extract_object, extract_verdict

MAX_TOLD = 5
"""Mistakes that one error names."""

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_evidence(model: type[ModelT], reply: str, *, key: str) -> ModelT:
    """Find the object with `key` in a reply and read it.

    Args:
        model: What the object must be; keys that it does not declare are ignored.
        reply: The reply as the judge wrote it.
        key: A key that the object must have.

    Raises:
        InvalidVerdictError: There is no such object, or a part of it is wrong; the detail names the path.
    """
    try:
        return model.model_validate(extract_object(reply, key=key))
    except ValidationError as error:
        raise InvalidVerdictError(_told(error)) from error


def read_score(reply: str, *, low: int, high: int) -> dict[str, Any]:
    """Find the verdict in a reply whose score is the judge's own.

    Returns:
        The object; its `score` is an integer in the range.

    Raises:
        InvalidVerdictError: There is no verdict, or its score is not an integer in the range.
    """
    verdict = extract_verdict(reply)
    check_score(verdict["score"], low=low, high=high)
    return verdict


def check_score(score: object, *, low: int, high: int) -> int:
    """The score, if it is an integer in its range.

    Raises:
        InvalidVerdictError: It is not.
    """
    if isinstance(score, bool) or not isinstance(score, int) or not low <= score <= high:
        raise InvalidVerdictError(f"score must be an integer from {low} to {high}, got {str(score)[:40]}")
    return score


def _told(error: ValidationError) -> str:
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    told = [f"{_path(one['loc'])}: {one['msg']}" for one in errors[:MAX_TOLD]]
    if len(errors) > MAX_TOLD:
        told.append(f"and {len(errors) - MAX_TOLD} more")
    return "; ".join(told)


def _path(location: Iterable[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
