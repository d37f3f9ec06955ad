"""Options of a prompt pack: name, score range, response schema, examples."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from judge.chat import ResponseSchema
from judge.errors import PromptPackError
from judge.metrics.packs.kinds import Choice, read_choice
from judge.metrics.packs.pairs import PAIR
from judge.metrics.packs.quotes import QuotedText, read_quotes

MAX_SCORES = 101
"""Limit of possible scores, because each is a time series."""
MAX_SCORE = 1000
"""Largest score. The smallest is 0, because sums of scores are Prometheus counters and must not fall."""
MAX_NUMBER = 1e9
"""Largest score if scores need not be whole numbers; these are counted in ten buckets.
"""

_KNOWN = ("name", "score_range", "response_schema", "examples", "result", "good", "quotes")
_SCHEMA_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class PackOptions:
    """A pack's validated options."""

    name: str | None
    score_range: tuple[float, float] | None
    response_schema: ResponseSchema | None
    choice: Choice | None = None
    """The judge's choices; None: a number."""
    is_number: bool = False
    """Whether scores need not be whole numbers."""
    is_pair: bool = False
    """Whether it compares two answers."""
    quotes: Mapping[str, QuotedText] = field(default_factory=dict)
    """Keys of the verdict that quote a text, with the text's name."""
    examples: Any = ()
    """Raw; `judge.metrics.packs.examples` parses them when the templates' inputs are known."""


def read_options(given: Mapping[str, Any], warnings: list[str]) -> PackOptions:
    """Validate the options; unknown keys are ignored with a warning.

    Raises:
        PromptPackError: An option is invalid.
    """
    for key in given:
        if key not in _KNOWN:
            close = difflib.get_close_matches(str(key), _KNOWN, n=1)
            meant = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(_KNOWN)}"
            warnings.append(f"{key!r} is ignored{meant}")
    name = given.get("name")
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise PromptPackError(f"name must be a text, got {name!r}")
    is_number = given.get("result") == "number"
    if given.get("good") is not None and given.get("result") in (None, "number", "pairwise"):
        raise PromptPackError("good needs `result: boolean`")
    score_range = (
        None
        if given.get("score_range") is None
        else read_score_range(given["score_range"], is_number=is_number)
    )
    choice = None
    is_pair = False
    if given.get("result") is not None and not is_number:
        is_pair = given["result"] == "pairwise"
        choice = PAIR if is_pair else read_choice(given["result"], good=given.get("good"))
        if score_range is not None:
            raise PromptPackError(
                "score_range and result exclude each other: the range follows from the result"
            )
        score_range = choice.score_range
    schema = given.get("response_schema")
    return PackOptions(
        name=name,
        score_range=score_range,
        response_schema=None if schema is None else _response_schema(schema, warnings),
        choice=choice,
        is_number=is_number,
        is_pair=is_pair,
        quotes=read_quotes(given.get("quotes")),
        examples=[] if given.get("examples") is None else given["examples"],
    )


def read_score_range(value: Any, *, is_number: bool = False) -> tuple[float, float]:
    """Parse a score range.

    Args:
        value: Lowest and highest score as a pair, or a mapping with `min` and `max`.
        is_number: Whether scores and ends need not be whole numbers.

    Raises:
        PromptPackError: It is invalid or too wide.
    """
    ends = [value.get("min"), value.get("max")] if isinstance(value, Mapping) else value
    if is_number:
        return _number_range(ends)
    # bool is an int in Python, but not a valid end of a range.
    if not (isinstance(ends, list | tuple) and len(ends) == 2 and all(type(end) is int for end in ends)):
        raise PromptPackError(f"score_range must be two whole numbers such as [1, 5], got {value!r}")
    low, high = int(ends[0]), int(ends[1])
    if not 0 <= low < high <= MAX_SCORE or high - low >= MAX_SCORES:
        raise PromptPackError(
            f"score_range must go from a lower to a higher number within 0..{MAX_SCORE} "
            f"and contain at most {MAX_SCORES} scores, got {list(ends)}"
        )
    return low, high


def _number_range(ends: Any) -> tuple[float, float]:
    numbers = (
        isinstance(ends, list | tuple) and len(ends) == 2 and all(type(end) in {int, float} for end in ends)
    )
    if not numbers or not 0 <= ends[0] < ends[1] <= MAX_NUMBER:
        raise PromptPackError(
            f"score_range must go from a lower to a higher number within 0..{MAX_NUMBER:g}, got {ends!r:.80}"
        )
    return float(ends[0]), float(ends[1])


def _response_schema(given: Any, warnings: list[str]) -> ResponseSchema:
    schema = given
    if isinstance(given, str):
        try:
            schema = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise PromptPackError(f"response_schema is not JSON: {error}") from error
    name = "verdict"
    if isinstance(schema, dict) and isinstance(schema.get("schema"), dict):
        # Wrapped as in a chat completion's response_format.
        named = schema.get("name")
        name = named if isinstance(named, str) and _SCHEMA_NAME.fullmatch(named) else name
        schema = schema["schema"]
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or "score" not in properties:
        raise PromptPackError('response_schema must be the JSON Schema of an object with a property "score"')
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise PromptPackError(f"response_schema has values that JSON cannot express: {error}") from error
    if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
        warnings.append(
            "response_schema is sent in strict mode, which many endpoints take only with "
            "`additionalProperties: false` "
            "and every property listed as required"
        )
    return ResponseSchema(name=name, schema=schema)
