"""Validate custom citation patterns, whose matching time must be bounded."""

from __future__ import annotations

import re
from re import _parser as re_parser  # type: ignore[attr-defined]
from typing import Any

MAX_PATTERN_LENGTH = 500
MAX_REPETITIONS = 2
MAX_BOUND = 200
"""Larger repetitions count as unbounded."""
MANY = 1000


def safe_pattern(pattern: str) -> str:
    """Return a compiled citation pattern whose matching time is bounded by the text's length.

    Raises:
        ValueError: It is invalid, longer than 500 characters, or has nested repetitions or back-references.
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(
            f"citation_pattern must be at most {MAX_PATTERN_LENGTH} characters, got "
            f"{len(pattern)}; shorten it"
        )
    try:
        parsed = re_parser.parse(pattern)
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"citation_pattern is not a regular expression: {error}; correct it") from error
    if _repetitions(parsed) > MAX_REPETITIONS:
        raise ValueError(
            f"citation_pattern must not nest repetitions, have more than {MAX_REPETITIONS} unbounded "
            f"repetitions or back-references, whose time could grow exponentially; bound them as in {0, 100}"
        )
    return pattern


def _repetitions(parsed: Any, inside: int = 1) -> int:
    """Return the number of unbounded repetitions of a pattern; a very large one if they are nested."""
    count = 0
    for kind, value in parsed:
        name = str(kind)
        if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            most = value[1]
            repeats = inside * MANY if int(most) > MAX_BOUND else inside
            count += (inside if repeats > inside else 0) + _repetitions(value[2], repeats)
        elif name.startswith("GROUPREF"):
            count += MANY
        else:
            for part in value if isinstance(value, tuple | list) else (value,):
                for one in part if isinstance(part, list) else (part,):
                    if isinstance(one, re_parser.SubPattern):
                        count += _repetitions(one, inside)
    return count
