"""Turns what the judge's endpoints do into metrics and log lines, and books what no result carries."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from judge.verdict.pricing import PriceTable
from schemas import Usage
from streams.telemetry.instruments import Metrics

_log = structlog.stdlib.get_logger(__name__)


def _book_nothing(cost_usd: float | None) -> None:
    """Nobody keeps account."""


class JudgeWatch:
    """Is notified of calls and outages, as `judge.pool.observer.PoolObserver` wants it.

    Args:
        counts: Where it is counted.
        prices: What tokens cost.
        book: Books calls, with what they cost (None if unknown), that are for no verdict.
        now: The monotonic clock, in seconds.
    """

    def __init__(
        self,
        counts: Metrics,
        *,
        prices: PriceTable | None = None,
        book: Callable[[float | None], None] = _book_nothing,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counts = counts
        self._prices = prices or PriceTable()
        self._book = book
        self._now = now
        self._down_since: dict[str, float] = {}

    def in_flight(self, endpoint: str, calls: int) -> None:
        """This many calls to an endpoint are under way."""
        self._counts.set_in_flight(endpoint, calls)

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """A judge was asked, and this came of it."""
        self._counts.observe_call(endpoint, model, outcome, seconds)

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """A call has used tokens."""
        cost_usd = self._prices.cost_usd(model, usage, endpoint=endpoint)
        self._counts.observe_usage(endpoint, model, usage, cost_usd)
        if not for_verdict:
            self._book(cost_usd)

    def cache_failed(self) -> None:
        """A verdict could not be read from the cache, or not be kept in it; the cache has said why."""
        self._counts.count_cache_failure()

    def down(self, endpoint: str, reason: str | None) -> None:
        """An endpoint's breaker opened, for this reason, or closed (None)."""
        self._counts.set_breaker(endpoint, is_open=reason is not None)
        if reason is not None:
            self._down_since.setdefault(endpoint, self._now())
            _log.error("judge endpoint down", endpoint=endpoint, error=reason)
        elif endpoint in self._down_since:
            seconds = round(self._now() - self._down_since.pop(endpoint), 3)
            _log.info("judge endpoint available again", endpoint=endpoint, down_seconds=seconds)
