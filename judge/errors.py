"""All errors that judging can raise.

JudgeError
├── JudgeUnavailableError      the endpoint is down, slow or rate-limited: retry later
│   ├── EndpointDownError      not asked: the endpoint is down
│   ├── BatchMissedError       the batch has no reply: ask singly
│   └── DrainingError          not asked: the worker stops or rebalances
├── JudgeConfigurationError    every call would fail (401, 403, unknown model): stop
│   └── ResponseFormatError    the endpoint refuses the response format
├── EventError                 only this event: becomes a Failed result with this `error_type`
│   └── InvalidVerdictError    the judge's reply is invalid
├── ExtensionError             an installed reader, sink or metric is missing or cannot be used
├── InvalidEventError          the fields given to the library are no valid event
└── PromptPackError            a prompt pack is invalid
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from judge.chat import ChatReply, RateLimits
from schemas import FailedType

UnavailableKind = Literal["rate_limited", "overloaded", "timeout", "unavailable"]
"""rate_limited: too many requests; overloaded: the endpoint reports overload; timeout: no answer in time;
unavailable: anything else, such as a refused connection or an unreadable reply."""


class JudgeError(Exception):
    """Base class; `reply` is set if the endpoint reports used tokens although there is no verdict."""

    reply: ChatReply | None = None
    said: str = ""
    """The endpoint's message, truncated. It may quote the event: log it only at level debug."""


class JudgeUnavailableError(JudgeError):
    """The endpoint cannot answer now; retry later, after `retry_after_seconds` if it asks for a pause."""

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        kind: UnavailableKind = "unavailable",
        limits: RateLimits | None = None,
        reply: ChatReply | None = None,
    ) -> None:
        super().__init__(message)
        self.reply = reply
        self.retry_after_seconds = retry_after_seconds
        self.kind: UnavailableKind = kind
        self.limits = limits


class EndpointDownError(JudgeUnavailableError):
    """Not asked: its breaker is open."""


class BatchMissedError(JudgeUnavailableError):
    """The batch that the request waited for has no usable reply to it: ask again singly."""


class DrainingError(JudgeUnavailableError):
    """The call was cancelled in the queue, not sent: the next reader of the task judges it."""


class JudgeConfigurationError(JudgeError):
    """No call can succeed until the configuration is corrected; `remedy` says how if `told` does not."""

    def __init__(self, told: str, remedy: str = "") -> None:
        super().__init__(f"{told}. {remedy}" if remedy else told)
        self.told = told
        self.remedy = remedy


class ResponseFormatError(JudgeConfigurationError):
    """The endpoint refuses the response format; a weaker one may work."""


class EventError(JudgeError):
    """This event cannot be judged; a retry would not help. It becomes a result with this `error_type`."""

    def __init__(self, error_type: FailedType, detail: str, *, reply: ChatReply | None = None) -> None:
        super().__init__(detail)
        self.reply = reply
        self.error_type: FailedType = error_type
        self.detail = detail


class InvalidVerdictError(EventError):
    """The judge's reply is not a valid verdict; the detail says what to repair."""

    def __init__(self, detail: str) -> None:
        super().__init__("invalid_verdict", detail)


class PromptPackError(JudgeError):
    """A prompt pack cannot be read, or is incomplete or wrong."""


class ExtensionError(JudgeError):
    """An installed reader, sink or metric is missing, provided twice, broken, or no such thing."""


class InvalidEventError(JudgeError):
    """The fields given to the library are no valid event; `problems` has a line for each of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
