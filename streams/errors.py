"""All errors that `streams` can raise.

The embedded broker has its own errors.

StreamsError
├── SettingsError           the settings cannot be used: all problems at once, exit code 2
├── DecodeError             one record is not an event: it becomes a dead letter with this reason and detail
├── ReaderDownError         reading needs another system, which does not answer
├── TooLargeError           one record is too large for the broker: it is truncated or a dead letter
├── KafkaAccessError        the broker refuses access, a retry does not help: exit code 2
├── DeadLetterLimitError    there are more dead letters than dead_letters.max_ratio allows
├── TokenError              there is no token to log in with
├── TopicsError             topics are missing, or the broker does not answer
├── UnsupportedFaustError   Faust's compiled parts are missing: the worker refuses to start
├── PortError               the HTTP port cannot be opened
├── WorkerCrashedError      an error that a retry cannot fix; the cause is attached
├── DemoError               the demo failed
├── StoreError              the verdict store cannot be used
│   ├── StoreMissingError   there is no store yet
│   ├── StoreDamagedError   damaged or of another version: it is renamed and rebuilt
│   ├── StoreFullError      the disk is full: the store waits, the worker continues
│   └── TooSlowError        a query took too long
├── BadFilterError          a filter of verdicts is invalid
└── ExportError             verdicts cannot be exported
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

DecodeReason = Literal["undecodable", "oversized"]
"""Both are reasons of a dead letter. undecodable: not an event; oversized: over `ingest.max_event_bytes`."""
AccessProblem = Literal["unreachable", "protocol", "certificate", "login", "token", "permission", "clock"]
"""unreachable: no answer; protocol: the two sides use different protocols; certificate: TLS refused one;
login: SASL refused the login; token: no token to log in with; permission: an ACL is missing."""


class StreamsError(Exception):
    """Base of all errors of this package."""


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


class ReaderDownError(StreamsError):
    """Reading needs another system, such as a schema registry, which does not answer."""


class TooLargeError(StreamsError):
    """The record is too large for the broker or the producer; a retry does not help."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the broker cannot be used, in clauses without a full stop and without secrets."""

    kind: AccessProblem
    reason: str
    remedy: str
    lasting: bool = True
    """Whether a retry does not help."""

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


class KafkaAccessError(StreamsError):
    """The broker refuses access; a retry does not help."""

    def __init__(self, explanation: Explanation) -> None:
        super().__init__(str(explanation))
        self.explanation = explanation


class DeadLetterLimitError(StreamsError):
    """There are more dead letters than `dead_letters.max_ratio` allows."""


class TokenError(StreamsError):
    """There is no token to log in with; `lasting`: a retry does not help."""

    def __init__(self, reason: str, remedy: str, *, lasting: bool) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy
        self.lasting = lasting


class TopicsError(StreamsError):
    """Topics are missing, or the broker does not report them."""


class UnsupportedFaustError(StreamsError):
    """Faust's compiled parts are missing."""


class PortError(StreamsError):
    """The port cannot be listened on."""


class WorkerCrashedError(StreamsError):
    """An error that a retry cannot fix; the cause is attached."""


class DemoError(StreamsError):
    """The demo failed."""


class StoreError(StreamsError):
    """The verdict store cannot be used."""


class StoreMissingError(StoreError):
    """There is no store yet."""


class StoreDamagedError(StoreError):
    """The store's file is no database, is damaged, or has another version: it is renamed and rebuilt."""


class StoreFullError(StoreError):
    """The disk is full: the store waits, the worker continues."""


class TooSlowError(StoreError):
    """A query of the store took too long; use a shorter time range or another filter."""


class BadFilterError(StreamsError):
    """A filter is invalid; the message names the parameter, its value and the allowed values."""


class ExportError(StreamsError):
    """Verdicts cannot be exported: the folder is not empty, or the format needs an extra."""
