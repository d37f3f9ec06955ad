"""Finding the verdict in what a judge wrote: bare JSON, JSON in a code fence, or JSON after a page of prose."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import orjson

from judge.errors import InvalidVerdictError
from judge.text.surrogates import without_lone_surrogates

MAX_DEPTH = 32
"""Levels of nesting that a verdict may have; no metric needs more than five."""
MAX_ATTEMPTS = 2000
"""Opening braces that may fail to start an object before the search ends: keeps the work on a hostile reply bounded."""
_QUOTE_CHARS = 200


def extract_verdict(text: str) -> dict[str, Any]:
    """Find the last JSON object that has a `score` in a judge's reply.

    Judges think aloud and correct themselves, so that the last one is meant. An object inside another is part of
    that one and is not taken for the verdict.

    Args:
        text: The reply as the judge wrote it.

    Returns:
        The object. Its values are what JSON allows: finite numbers, no lone surrogates, integers of at most 64 bits,
        at most 32 levels deep. Whether the score is an integer in its range is the metric's to check.

    Raises:
        InvalidVerdictError: There is none, or it breaks one of these bounds; the detail tells the judge what to mend.
    """
    return extract_object(text, key="score")


def extract_object(text: str, *, key: str) -> dict[str, Any]:
    """Find the last outermost JSON object that has `key`; see `extract_verdict`.

    Args:
        text: The reply as the judge wrote it.
        key: The key that the object must have.

    Raises:
        InvalidVerdictError: There is none, or it breaks a bound.
    """
    found = _whole(text, key)
    if found is None:
        found = _last(text, key)
    if found is None:
        raise InvalidVerdictError(f'the reply holds no JSON object with "{key}"; it says: {_quoted(text)}')
    cleaned: dict[str, Any] = _cleaned(found, MAX_DEPTH)
    return cleaned


def _whole(text: str, key: str) -> dict[str, Any] | None:
    """The usual case: the reply is the object."""
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) and key in value else None


def _last(text: str, key: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    found: dict[str, Any] | None = None
    failure: str | None = None
    failed_at = -1
    position = text.find("{")
    attempts = 0
    while position >= 0 and attempts < MAX_ATTEMPTS:
        try:
            value, end = decoder.raw_decode(text, position)
        except InvalidVerdictError as error:
            failure, failed_at = error.detail, position
            end = position + 1
            attempts += 1
        except (ValueError, RecursionError):
            # ValueError: not JSON, or a number of thousands of digits.
            end = position + 1
            attempts += 1
        else:
            if key in value:
                found, failure = value, None
        position = text.find("{", end)
    if found is None and failure is not None:
        raise InvalidVerdictError(f"{failure} (in the object at character {failed_at})")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidVerdictError(f"{name} is not a JSON number; give a finite number")


def _cleaned(value: Any, depth: int) -> Any:
    """The same value, fit to be written as JSON again."""
    if depth == 0:
        raise InvalidVerdictError(f"the verdict is nested deeper than {MAX_DEPTH} levels; make it flat")
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if value is None or value is True or value is False:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidVerdictError("a number in the verdict is too large; give a finite number")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidVerdictError("an integer in the verdict needs more than 64 bits; give a smaller one")
    if isinstance(value, list):
        return [_cleaned(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {without_lone_surrogates(name): _cleaned(item, depth - 1) for name, item in value.items()}
    return value


def _quoted(text: str) -> str:
    """The reply's end, where verdicts stand, on one line."""
    line = " ".join(without_lone_surrogates(text[-2 * _QUOTE_CHARS :]).split())
    if not line:
        return "nothing"
    return f'"{line}"' if len(line) <= _QUOTE_CHARS else f'"…{line[-_QUOTE_CHARS:]}"'
