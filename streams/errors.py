"""All errors that `streams` can raise; the embedded broker has its own.

StreamsError                 what was asked for cannot be done: exit code 1
├── SettingsError           the settings cannot be used: all problems at once, exit code 2
├── DecodeError             one record is not an event: it becomes a dead letter with this reason and detail
├── ReaderDownError         reading needs another system, which does not answer
├── TooLargeError           one record is too large for the broker: it is truncated or a dead letter
├── KafkaAccessError        the broker refuses access, a retry does not help: exit code 2
├── DeadLetterLimitError    there are more dead letters than dead_letters.max_ratio allows
├── TokenError              there is no token to log in with
├── StoreError              the verdict store cannot be used
│   ├── StoreMissingError   there is no store yet
│   ├── StoreDamagedError   damaged or of another version: it is renamed and rebuilt
│   ├── StoreFullError      the disk is full: the store waits, the worker continues
│   └── TooSlowError        a query took too long
└── BadFilterError          a filter of verdicts is invalid
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

DecodeReason = Literal["undecodable", "oversized"]
"""Both are reasons of a dead letter. undecodable: not an event; oversized: over `ingest.max_event_bytes`."""


class StreamsError(Exception): ...


class SettingsError(StreamsError):
    """A problem is a line: the dotted path, what is wrong, the value (never a secret's), the remedy."""

    def __init__(self, problems: Sequence[str], rest: Any = None) -> None:
        super().__init__("\n".join(problems))
        self.problems: tuple[str, ...] = tuple(problems)
        self.rest = rest
        """The valid part of the settings (`streams.settings.load.Rest`), for further checks, if known."""


class DecodeError(StreamsError):
    """A record is not an event; the detail has field, limit, truncated value and remedy, as far as known."""

    def __init__(self, reason: DecodeReason, detail: str) -> None:
        super().__init__(reason, detail)  # so that a child process can return it
        self.reason: DecodeReason = reason
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


def undecodable(detail: str) -> DecodeError:
    return DecodeError("undecodable", detail)


class ReaderDownError(StreamsError): ...


class TooLargeError(StreamsError): ...


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the broker cannot be used, in clauses without a full stop and without secrets."""

    reason: str
    remedy: str
    lasting: bool = True
    """Whether a retry does not help."""

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


class KafkaAccessError(StreamsError):
    def __init__(self, explanation: Explanation) -> None:
        super().__init__(str(explanation))
        self.explanation = explanation


class DeadLetterLimitError(StreamsError): ...


class TokenError(StreamsError):
    def __init__(self, reason: str, remedy: str, *, lasting: bool) -> None:
        self.explanation = Explanation(reason, remedy, lasting)
        super().__init__(str(self.explanation))


class StoreError(StreamsError): ...


class StoreMissingError(StoreError): ...


class StoreDamagedError(StoreError): ...


class StoreFullError(StoreError): ...


class TooSlowError(StoreError): ...


class BadFilterError(StreamsError): ...
