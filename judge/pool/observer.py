"""Who hears what happens at the endpoints of a pool and to the verdict cache; for metrics and logs."""

from __future__ import annotations

from typing import Protocol

from schemas import Usage


class PoolObserver(Protocol):
    """Hears what happens at the endpoints."""

    def in_flight(self, endpoint: str, calls: int) -> None:
        """This many calls to an endpoint are under way."""

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """A judge was asked, and this came of it.

        Args:
            endpoint: The endpoint's name.
            model: The model that was asked.
            outcome: A result's status or error_type, or why the endpoint gave none.
            seconds: In calls, waits excluded.
        """

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """A call has used tokens; called once for each call that an endpoint says so of, whatever came of it.

        Args:
            endpoint: The endpoint's name.
            model: The model that was asked.
            usage: As the endpoint counts.
            for_verdict: Whether some result will carry them; those of a check are on none.
        """

    def down(self, endpoint: str, reason: str | None) -> None:
        """An endpoint's breaker opened, for this reason, or closed (None)."""

    def cache_failed(self) -> None:
        """A verdict could not be read from the cache, or not be kept in it."""


class Unobserved:
    """Nobody looks."""

    def in_flight(self, endpoint: str, calls: int) -> None:
        """Calls are under way."""

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """A judge was asked."""

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """A call has used tokens."""

    def down(self, endpoint: str, reason: str | None) -> None:
        """An endpoint is down, or not any longer."""

    def cache_failed(self) -> None:
        """The cache has failed."""
