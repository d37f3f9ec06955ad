"""Why a result is what it is, in one line for people."""

from __future__ import annotations

from schemas import Failed, Scored, Unscored
from streams.printable import printable


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
        return printable(" ".join(str(line) for line in rationale), limit)
    return ""
