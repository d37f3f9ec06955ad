"""Why a result is what it is, in one line for people."""

from __future__ import annotations

import re

from schemas import Failed, Scored, Unscored
from streams.text.printable import printable

_COUNTS = re.compile(r"\d+ of \d+")


def reason_of(result: Scored | Unscored | Failed, limit: int = 200) -> str:
    """Give the first words of a result's reason, safe to print.

    Args:
        result: The result.
        limit: Most characters.
    """
    if isinstance(result, Failed):
        return printable(f"{result.error_type}: {result.detail}", limit)
    if isinstance(result, Unscored):
        return printable(result.reason, limit)
    justification = result.verdict.get("justification")
    if isinstance(justification, str):
        return printable(justification, limit)
    rationale = result.verdict.get("rationale")
    if isinstance(rationale, list):
        return printable(", ".join(_short(str(line)) for line in rationale[:-1]) or str(rationale), limit)
    return ""


def _short(line: str) -> str:
    """Cut "Fact: 2 of 3 facts correctly matched." to "fact 2 of 3"; the last line, the formula, is left to the verdict."""
    name, _, text = line.partition(": ")
    counts = _COUNTS.match(text)
    return f"{name.lower()} {counts[0] if counts else text}"
