"""Parse the headers `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from judge.chat import QuotaReport, RateLimits

_PREFIX = b"x-ratelimit-"
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|us|µs|d|h|m|s)")
_UNIT_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_CHARS = 64


def rate_limits(headers: Iterable[tuple[bytes, bytes]]) -> RateLimits | None:
    """Parse the limits that an endpoint reports.

    Args:
        headers: Names and values of a reply's raw headers.

    Returns:
        The limits; None if none is readable.
    """
    found: dict[str, float] = {}
    for name, value in headers:
        # Skip most headers fast, because this runs for every call.
        if name[:12].lower() != _PREFIX or len(value) > _MAX_CHARS:
            continue
        key = name[12:].decode("ascii", "replace").lower()
        text = value.decode("utf-8", "replace").strip()
        number = duration_seconds(text) if key.startswith("reset-") else _number(text)
        if number is not None:
            found[key] = number
    if not found:
        return None
    return RateLimits(_report(found, "requests"), _report(found, "tokens"))


def duration_seconds(text: str) -> float | None:
    """Parse a duration: `6m0s`, `8.64s`, `120ms`, or plain seconds.

    Returns:
        Seconds, 0 or more; None for anything else.
    """
    plain = _number(text)
    if plain is not None:
        return plain
    position, total = 0, 0.0
    for part in _PART.finditer(text):
        if part.start() != position:
            return None
        total += float(part[1]) * _UNIT_SECONDS[part[2]]
        position = part.end()
    return total if position and position == len(text) else None


def _report(found: dict[str, float], what: str) -> QuotaReport:
    return QuotaReport(
        limit=found.get(f"limit-{what}"),
        remaining=found.get(f"remaining-{what}"),
        reset_seconds=found.get(f"reset-{what}"),
    )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
