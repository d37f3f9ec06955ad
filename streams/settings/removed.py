"""Settings that no longer exist: the reason, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

REMOVED: Final[Mapping[str, str]] = {
    "judge.hedge_after_seconds": "a repeated call may be billed twice; lower timeout_seconds of the endpoint "
    "or name a second endpoint",
    "monitor.window_seconds": "the window is an hour, like that of the recording rules; remove it",
}
"""Reason and remedy by path; `*` stands for any one part. A path covers what is below it."""


def removal(path: Sequence[str | int]) -> str | None:
    """Return the reason and remedy of the removed setting at a path or above it; None if there is none."""
    for length in range(len(path), 0, -1):
        for pattern, reason in REMOVED.items():
            parts = pattern.split(".")
            if len(parts) == length and all(
                part in ("*", str(given)) for part, given in zip(parts, path[:length], strict=True)
            ):
                return reason
    return None
