"""Everything that streaming can raise.

StreamsError
├── SettingsError   the settings cannot be used: all problems at once, exit code 2
└── DecodeError     one record is not an event: it becomes a dead letter with this reason and detail
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

DecodeReason = Literal["undecodable", "oversized"]
"""Both are reasons of a dead letter. undecodable: not an event; oversized: over `ingest.max_event_bytes`."""


class StreamsError(Exception):
    """Base of all errors of this package."""


class SettingsError(StreamsError):
    """The settings cannot be used.

    Args:
        problems: One line each: the setting's dotted path, what is wrong, the value (never a secret's), the remedy.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems: tuple[str, ...] = tuple(problems)


class DecodeError(StreamsError):
    """A record is not an event.

    Args:
        reason: The reason of the dead letter that the record becomes.
        detail: Field, limit, value (cut) and remedy, as far as they are known.
    """

    def __init__(self, reason: DecodeReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: DecodeReason = reason
        self.detail = detail
