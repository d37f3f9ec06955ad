"""Read the sampling entries of W3C tracestate, `ot=rv:...;th:...`. Pure."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = 14
"""Hexadecimal digits of 56 bits."""
_THRESHOLD_VALUE: Final = re.compile(r"[0-9a-f]{1,14}", re.ASCII)
_RANDOM_VALUE: Final = re.compile(r"[0-9a-f]{14}", re.ASCII)


def random_value(tracestate: str | None) -> int | None:
    """Return the explicit randomness of a tracestate; None without a valid one."""
    value = _ot_value(tracestate, "rv")
    return int(value, 16) if value is not None and _RANDOM_VALUE.fullmatch(value) else None


def upstream_threshold(tracestate: str | None) -> int | None:
    """Return the upstream sampler's threshold of a tracestate; None without a valid one.

    It has up to 14 hexadecimal digits, with trailing zeros omitted.
    """
    value = _ot_value(tracestate, "th")
    if value is None or not _THRESHOLD_VALUE.fullmatch(value):
        return None
    return int(value.ljust(_DIGITS, "0"), 16)


def _ot_value(tracestate: str | None, wanted: str) -> str | None:
    if not tracestate or "ot=" not in tracestate:
        return None
    for member in tracestate.split(","):
        vendor, _, entries = member.strip(" \t").partition("=")
        if vendor == "ot":
            for entry in entries.split(";"):
                name, _, value = entry.partition(":")
                if name == wanted:
                    return value
            return None
    return None
