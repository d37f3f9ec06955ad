"""What an endpoint is given, what it tells, and the account of one task's calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from typing import Any, Final

from judge.chat import ChatClient
from judge.endpoints.health import UNWELL_SHARE, Outcome
from judge.errors import JudgeConfigurationError, JudgeError, JudgeUnavailableError, UnavailableKind
from schemas import Usage

CONFIRM_SECONDS: Final = 10.0
"""Long enough for a gateway whose backend is still starting."""


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """One endpoint with its limits and parameters.

    Args:
        max_in_flight: Limit of concurrent calls, at least 1; None: only the pool's limit.
        requests_per_minute: Its limit, if its headers report none or one that is too high; above 0.
        tokens_per_minute: As `requests_per_minute`, of input and output together.
        call_seconds: Time limit of one call, above 0; None: the pool's.
        context_tokens: The model's context window; None: unknown.
        borrowed: Whether the caller closes the client.
    """

    chat: ChatClient
    max_in_flight: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    call_seconds: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    context_tokens: int | None = None
    borrowed: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """Retries, time limit and breaker; pass it in `JudgingOptions` to change them.

    Args:
        timeout_seconds: Time limit of one call, unless the endpoint has its own.
        first_wait_seconds: Longest first pause after a failure; it doubles, up to `longest_wait_seconds`.
        breaker_failures: Consecutive calls without an answer that open the breaker.
        longest_breaker_seconds: Longest pause between two probes of an endpoint that is down.
        confirm_seconds: How long an endpoint that never answered must refuse neutral events for the
            configuration before it is abandoned.
    """

    timeout_seconds: float = 30.0
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    breaker_failures: int = 10
    longest_breaker_seconds: float = 5.0
    confirm_seconds: float = CONFIRM_SECONDS


@dataclass(frozen=True, slots=True)
class EndpointState:
    """What there is to say of one endpoint, for status and pages.

    Args:
        reason: Why it is down; empty while it is up.
        failed_share: Share of the latest events that it failed at the first try and judged later, 0 to 1.
        model: The model that answered last; `earlier_model`: the one before, if it changed.
    """

    name: str
    up: bool
    reason: str = ""
    remedy: str = ""
    since: datetime | None = None
    failed_share: float = 0.0
    model: str = ""
    earlier_model: str = ""
    model_changed_at: datetime | None = None

    @property
    def is_unwell(self) -> bool:
        return self.up and self.failed_share > UNWELL_SHARE


class EndpointObserver:
    """Receives the events of endpoints, for metrics and logs; override what you need."""

    def in_flight(self, endpoint: str, calls: int) -> None:
        """The number of calls in flight at an endpoint has changed."""

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """An endpoint was asked; the outcome is a result's status or error_type, or the kind of failure."""

    def used(
        self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool, price_factor: float = 1.0
    ) -> None:
        """A call used tokens, failed ones included; `for_verdict`: a result will carry them."""

    def down(self, endpoint: str, reason: str | None) -> None:
        """An endpoint's breaker opened, for this reason, or closed (None)."""

    def failed_event(self, endpoint: str, tries: int) -> None:
        """An event was judged after an endpoint had failed it this many times."""

    def model_changed(self, endpoint: str, before: str, after: str) -> None:
        """A model answered that had not answered at this endpoint before, after another one."""


@dataclass(slots=True)
class Attempt:
    """The account of one task's calls; a round of it is one run of the evaluator at one endpoint."""

    calls: int = 0
    """Calls sent, failed ones included."""
    used: list[tuple[str, Usage]] = field(default_factory=list)
    """Endpoint and reported tokens of each call."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By endpoint, once it has failed the task."""
    avoided: set[str] = field(default_factory=set)
    """Endpoints to ask only if no other is available."""
    pauses: int = 0
    round_calls: int = 0
    """Calls of the current round."""
    round_seconds: float = 0.0
    round_used: int = 0
    """Calls of the round that reported tokens."""
    round_sent_at: float = 0.0
    """Time of its first call, on the pool's clock."""
    stalled: bool = False
    """Whether the last call ended late because this process was stopped."""

    def begin_round(self) -> None:
        self.round_calls, self.round_seconds, self.round_used, self.stalled = 0, 0.0, 0, False


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def remedy_for(error: JudgeError) -> str:
    if isinstance(error, JudgeConfigurationError):
        return error.remedy or "Correct the endpoint's settings"
    if isinstance(error, JudgeUnavailableError):
        return _REMEDIES[error.kind]
    return "It answers without a verdict: look at its log and at the model that it serves"


_REMEDIES: Final[Mapping[UnavailableKind, str]] = {
    "rate_limited": "Raise its quota, or lower requests_per_minute or the sampling rate",
    "overloaded": "Give it more capacity, or lower max_in_flight",
    "timeout": "Look at its load; raise timeout_seconds if it is slower than that",
    "unavailable": "Check that it runs and that base_url can be reached from here",
}
