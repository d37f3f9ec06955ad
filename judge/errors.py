"""Everything that judging can raise.

JudgeError
├── JudgeUnavailableError      the endpoint is down, slow or asks for patience: wait and try again
│   ├── EndpointDownError      it was not asked, because it is down
│   └── DrainingError          not asked: the worker ends or rebalances, the task's next reader judges it
├── JudgeConfigurationError    every call would fail alike (401, 403, unknown model): stop and say it
│   └── ResponseFormatError    the endpoint does not take the response format that was asked for
├── EventError                 this event only: becomes a Failed result with its `error_type`
│   └── InvalidVerdictError    the judge's reply does not hold
├── InvalidEventError          fields that are no event's, given to the library
└── PromptPackError            a prompt pack cannot be used as it is
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from judge.chat import ChatReply, RateLimits
from schemas import FailedType

UnavailableKind = Literal["rate_limited", "overloaded", "timeout", "unavailable"]
"""rate_limited: asked too often; overloaded: too busy, by its own account; timeout: no answer in time;
unavailable: all else, from a connection refused to a reply that is none."""


class JudgeError(Exception):
    """Base of all errors of this package.

    `reply` is what came back, where the endpoint says that it used tokens for it although it is not a
    verdict:
    they are paid for.
    """

    reply: ChatReply | None = None
    said: str = ""
    """The endpoint's own words, cut. They may quote question and answer: for the log at level debug and for a
    request of your own only."""


class JudgeUnavailableError(JudgeError):
    """The endpoint cannot answer now; the same call may succeed later.

    Args:
        message: What happened, with endpoint and status.
        retry_after_seconds: How long the endpoint asked to be left alone, if it did.
        kind: In which way it cannot.
        limits: What the endpoint says about its limits, if it does.
        reply: What came back, if tokens were used for it.
    """

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
    """The endpoint was not asked at all, because its breaker is open."""


class DrainingError(JudgeUnavailableError):
    """The endpoint was not asked, because calls that wait are abandoned.

    Nothing was decided and nothing paid.
    """


class JudgeConfigurationError(JudgeError):
    """No call can succeed until the configuration is changed.

    Args:
        told: What is wrong.
        remedy: What to change, where `told` does not say so.
    """

    def __init__(self, told: str, remedy: str = "") -> None:
        super().__init__(f"{told}. {remedy}" if remedy else told)
        self.told = told


class ResponseFormatError(JudgeConfigurationError):
    """The endpoint refuses the way in which the reply's form was asked for; a weaker way may do."""


class EventError(JudgeError):
    """The judge cannot judge this event; a retry would not help.

    Args:
        error_type: The `error_type` of the result that this becomes.
        detail: What happened, in one or a few lines.
        reply: What came back, if tokens were used for it.
    """

    def __init__(self, error_type: FailedType, detail: str, *, reply: ChatReply | None = None) -> None:
        super().__init__(detail)
        self.reply = reply
        self.error_type: FailedType = error_type
        self.detail = detail


class InvalidVerdictError(EventError):
    """The judge's reply is not a verdict that holds; the detail says what to repair."""

    def __init__(self, detail: str) -> None:
        super().__init__("invalid_verdict", detail)


class PromptPackError(JudgeError):
    """A prompt pack cannot be read or does not say what it must."""


class InvalidEventError(JudgeError):
    """The fields that the library was given are no event's.

    Args:
        problems: One line each: the field and what is wrong with it.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
