"""Finding the verdict in what a judge wrote: bare JSON, JSON in a code fence, or JSON after a page of prose.

A reply that can be read in two ways is not read at all: two verdicts that differ, a key given twice with two
values, or an object that breaks off raise an error, and the judge is asked to repair it. What leaves no doubt
is salvaged: a trailing comma, quotes and names as Python writes them, a line break within a string, the
arguments of a tool call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from judge.errors import InvalidVerdictError
from judge.metrics.replies.loose_json import LooseJSONError, read_loosely
from judge.text.characters import without_lone_surrogates

MAX_DEPTH = 32
"""Levels of nesting that a verdict may have; no metric needs more than five."""
MAX_SALVAGED_CHARS = 200_000
"""A longer reply must be strict JSON: the lenient reader is written in Python and takes a microsecond a
character."""
_QUOTE_CHARS = 200

# What begins an object; braces around prose ("{about braces}") do not.
_OPENING = re.compile(r"""\{\s*(?:["'}]|[A-Za-z_]\w*\s*:)""")
_THOUGHTS = re.compile(r"\s*<(think|thinking|thought|reasoning)>")
_ARGUMENTS = ("arguments", "parameters")


def extract_verdict(text: str) -> dict[str, Any]:
    """Find the JSON object that has a `score` in a judge's reply.

    An object inside another is part of that one and is not mistaken for the verdict. Thoughts between
    `<think>` tags that begin the reply are left out.

    Args:
        text: The reply as the judge wrote it.

    Returns:
        The object. Its values are what JSON allows: finite numbers, no lone surrogates, integers of at most
        64 bits, at most 32 levels deep. Whether the score is an integer in its range is the metric's to
        check.

    Raises:
        InvalidVerdictError: There is none, there are several that differ, one of them cannot be read, or it
            breaks one of these bounds; the detail says what the judge must repair.
    """
    return extract_object(text, key="score")


def extract_object(text: str, *, key: str) -> dict[str, Any]:
    """Find the outermost JSON object that has `key`; see `extract_verdict`.

    Args:
        text: The reply as the judge wrote it.
        key: The key that the object must have.

    Raises:
        InvalidVerdictError: There is none, there are several that differ, or it breaks a bound.
    """
    found: list[dict[str, Any]] = []
    for read in _objects(_without_thoughts(text)):
        one = _with_key(read, key)
        if one is not None and one not in found:
            found.append(one)
            if len(found) > 1:
                break  # more of them are not needed, and comparing all would take the square of their number
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
    """What follows a reasoning model's thoughts; its thoughts where nothing does."""
    begin = _THOUGHTS.match(text)
    if begin is None:
        return text
    _, end, said = text.partition(f"</{begin[1]}>")
    return said if end else text


def _with_key(read: dict[str, Any], key: str) -> dict[str, Any] | None:
    """The object, or the arguments of the tool call that it is."""
    if key in read:
        return read
    inner = next((read[name] for name in _ARGUMENTS if name in read), None)
    return inner if isinstance(inner, dict) and key in inner else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost objects of a reply, in order."""
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
    """An object; a key that is given two values leaves open which one is meant."""
    read = dict(pairs)
    if len(read) < len(pairs):
        for name, value in pairs:
            if read[name] != value or type(read[name]) is not type(value):
                raise InvalidVerdictError(
                    f'"{name[:40]}" is given twice in one object, with two values; give it once'
                )
    return read


def _read(error: Exception, begun: int, size: int) -> int:
    """How many characters were read until an error; all that were left where it does not say."""
    # For an unterminated text the error names its beginning.
    says = isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated")
    return (error.pos if says and isinstance(error, json.JSONDecodeError) else size) - begun


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidVerdictError(f"{name} is not a JSON number; give a finite number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_pairs)


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
