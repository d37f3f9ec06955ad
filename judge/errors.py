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
└── PromptPackError            a prompt pack cannot be read, or is incomplete or wrong
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
        self.retry_after_seconds = retry_after_seconds  # the pause that the endpoint asks for
        self.kind: UnavailableKind = kind
        self.limits = limits


class EndpointDownError(JudgeUnavailableError): ...


class BatchMissedError(JudgeUnavailableError): ...


class DrainingError(JudgeUnavailableError): ...


class JudgeConfigurationError(JudgeError):
    def __init__(self, told: str, remedy: str = "") -> None:
        super().__init__(f"{told}. {remedy}" if remedy else told)
        self.told = told
        self.remedy = remedy  # empty if `told` says what to correct


class ResponseFormatError(JudgeConfigurationError): ...


class EventError(JudgeError):
    def __init__(self, error_type: FailedType, detail: str, *, reply: ChatReply | None = None) -> None:
        super().__init__(detail)
        self.reply = reply
        self.error_type: FailedType = error_type
        self.detail = detail


class InvalidVerdictError(EventError):
    def __init__(self, detail: str) -> None:
        super().__init__("invalid_verdict", detail)


class PromptPackError(JudgeError): ...


class ExtensionError(JudgeError): ...


class InvalidEventError(JudgeError):
    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
