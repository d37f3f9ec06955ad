"""Callbacks for metrics and logs: endpoint calls, outages, cache failures."""

from __future__ import annotations

from typing import Protocol

from schemas import Usage


class PoolObserver(Protocol):
    """Receives the events of a pool's endpoints."""

    def in_flight(self, endpoint: str, calls: int) -> None:
        """The number of calls in flight at an endpoint has changed."""

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """An endpoint was asked.

        Args:
            endpoint: The endpoint's name.
            model: The model that was asked.
            outcome: A result's status or error_type, or the kind of the endpoint's failure.
            seconds: Time in calls, waits excluded.
        """

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """A call used tokens: once for each call with reported usage, failed ones included.

        Args:
            endpoint: The endpoint's name.
            model: The model that was asked.
            usage: Tokens, as the endpoint counts them.
            for_verdict: Whether a result will carry them; False for probes.
        """

    def down(self, endpoint: str, reason: str | None) -> None:
        """An endpoint's breaker opened, for this reason, or closed (None)."""

    def cache_failed(self) -> None:
        """Reading a verdict from the cache or writing it failed."""


class Unobserved:
    """Observer that ignores everything."""

    def in_flight(self, endpoint: str, calls: int) -> None:
        """Ignore the number of calls in flight."""

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """Ignore a call."""

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """Ignore used tokens."""

    def down(self, endpoint: str, reason: str | None) -> None:
        """Ignore an outage or recovery."""

    def cache_failed(self) -> None:
        """Ignore a cache failure."""
