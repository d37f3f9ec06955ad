"""Extract the verdict from a judge's reply: bare JSON, JSON in a code fence, or JSON after prose.

An ambiguous reply is rejected: two different verdicts, a key with two values, or an incomplete object raise
an error, and the judge is asked to repair it. Unambiguous flaws are repaired: trailing commas, Python's
quotes and names, line breaks in strings, and the verdict as arguments of a tool call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from judge.errors import InvalidVerdictError
from judge.metrics.replies.loose_json import LooseJSONError, read_loosely
from judge.text.normal import without_lone_surrogates

MAX_DEPTH = 32
"""Limit of nesting of a verdict; no metric needs more than five."""
MAX_SALVAGED_CHARS = 200_000
"""A longer reply must be strict JSON; the lenient parser takes about 1 µs per character."""
_QUOTE_CHARS = 200

# Start of an object, not of braces around prose ("{about braces}").
_OPENING = re.compile(r"""\{\s*(?:["'}]|[A-Za-z_]\w*\s*:)""")
_THOUGHTS = re.compile(r"\s*<(think|thinking|thought|reasoning)>")
_ARGUMENTS = ("arguments", "parameters")


def extract_verdict(text: str) -> dict[str, Any]:
    """Return the JSON object with a `score` in a judge's reply.

    Nested objects are not considered. A leading `<think>` section is ignored.

    Args:
        text: The judge's raw reply.

    Returns:
        The object, with finite numbers, no lone surrogates, integers of at most 64 bits, and at most 32
        levels. The metric checks the score itself.

    Raises:
        InvalidVerdictError: There is none, several differ, one is unreadable, or it exceeds a limit; the
            detail says what the judge must repair.
    """
    return extract_object(text, key="score")


def extract_object(text: str, *, key: str) -> dict[str, Any]:
    """Return the outermost JSON object with `key`; see `extract_verdict`.

    Args:
        text: The judge's raw reply.
        key: The key that the object must have.

    Raises:
        InvalidVerdictError: There is none, several differ, or it exceeds a limit.
    """
    found: list[dict[str, Any]] = []
    for read in _objects(_without_thoughts(text)):
        one = _with_key(read, key)
        if one is not None and one not in found:
            found.append(one)
            if len(found) > 1:
                break  # two suffice; comparing all would be quadratic
    if not found:
        raise InvalidVerdictError(f'the reply holds no JSON object with "{key}"; it says: {_quoted(text)}')
    if len(found) > 1:
        raise InvalidVerdictError(
            f'the reply holds {len(found)} JSON objects with "{key}" that differ; give one, and '
            "nothing around it"
        )
    cleaned: dict[str, Any] = _cleaned(found[0], MAX_DEPTH)
    return cleaned


def _without_thoughts(text: str) -> str:
    """Return the text after a reasoning section, or the section if nothing follows."""
    begin = _THOUGHTS.match(text)
    if begin is None:
        return text
    _, end, said = text.partition(f"</{begin[1]}>")
    return said if end else text


def _with_key(read: dict[str, Any], key: str) -> dict[str, Any] | None:
    """Return the object, or its arguments if it is a tool call."""
    if key in read:
        return read
    inner = next((read[name] for name in _ARGUMENTS if name in read), None)
    return inner if isinstance(inner, dict) and key in inner else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost objects of a reply, in order."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        pass
    else:
        if isinstance(value, dict):
            yield value
            return
    opening = _OPENING.search(text)
    while opening is not None:
        value, end = _object(text, opening.start())
        yield value
        opening = _OPENING.search(text, end)


def _object(text: str, start: int) -> tuple[dict[str, Any], int]:
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        problem: Exception = error
    if len(text) <= MAX_SALVAGED_CHARS:
        try:
            value, end = read_loosely(
                text, start, max_depth=MAX_DEPTH, pairs=_pairs, constant=_refuse_constant
            )
        except LooseJSONError as error:
            problem = error
        else:
            return value, end
    raise InvalidVerdictError(
        f"the JSON object at character {start} cannot be read: {str(problem)[:200]}; give one complete object"
    ) from problem


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; a key with two different values is an error."""
    read = dict(pairs)
    if len(read) < len(pairs):
        for name, value in pairs:
            if read[name] != value or type(read[name]) is not type(value):
                raise InvalidVerdictError(
                    f'"{name[:40]}" is given twice in one object, with two values; give it once'
                )
    return read


def _read(error: Exception, begun: int, size: int) -> int:
    """Return how many characters were parsed before an error; all if it names no place."""
    # For an unterminated string the error names its start.
    says = isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated")
    return (error.pos if says and isinstance(error, json.JSONDecodeError) else size) - begun


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidVerdictError(f"{name} is not a JSON number; give a finite number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_pairs)


def _cleaned(value: Any, depth: int) -> Any:
    """Return the value with only what JSON can express."""
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
    """Return the reply's end, where verdicts are, on one line."""
    line = " ".join(without_lone_surrogates(text[-2 * _QUOTE_CHARS :]).split())
    if not line:
        return "nothing"
    return f'"{line}"' if len(line) <= _QUOTE_CHARS else f'"…{line[-_QUOTE_CHARS:]}"'
