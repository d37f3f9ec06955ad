"""Record calls and outages of the judge's endpoints, as metrics, log lines and spending."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from judge.endpoints.options import EndpointObserver
from judge.evaluate.prices import PriceTable
from schemas import Usage
from streams.telemetry.instruments import Metrics

_log = structlog.stdlib.get_logger(__name__)


def _book_nothing(cost_usd: float | None) -> None:
    """Do nothing: spending is not recorded."""


class JudgeWatch(EndpointObserver):
    """Observes the endpoints of a worker.

    Args:
        book: Records the cost (None if unknown) of calls that belong to no verdict.
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
        """Set the number of calls in flight to an endpoint."""
        self._counts.set("judgestream_judge_in_flight", endpoint, to=calls)

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """Record a completed call with its outcome."""
        self._counts.observe_call(endpoint, model, outcome, seconds)

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """Record the tokens of a call."""
        cost_usd = self._prices.cost_usd(model, usage, endpoint=endpoint)
        self._counts.observe_usage(endpoint, model, usage, cost_usd)
        if not for_verdict:
            self._book(cost_usd)

    def failed_event(self, endpoint: str, tries: int) -> None:
        """Count the tries that an endpoint failed although the event was judged later."""
        self._counts.count("judgestream_judge_endpoint_failures_total", endpoint, by=tries)

    def model_changed(self, endpoint: str, before: str, after: str) -> None:
        """Count and log a model that answers for the first time, after another one."""
        self._counts.count("judgestream_judge_model_changes_total", endpoint)
        _log.warning(
            "another model answers; scores before and after are not comparable",
            endpoint=endpoint,
            before=before,
            after=after,
        )

    def cache_failed(self) -> None:
        """Count a failed read or write of the verdict cache, which logs the reason."""
        self._counts.count("judgestream_verdict_cache_failures_total")

    def down(self, endpoint: str, reason: str | None) -> None:
        """Record that an endpoint's breaker opened, with the reason, or closed (None)."""
        self._counts.set("judgestream_judge_breaker_open", endpoint, to=float(reason is not None))
        # A counter that begins at 0 shows its first increase.
        self._counts.count("judgestream_judge_endpoint_failures_total", endpoint, by=0)
        self._counts.count("judgestream_judge_model_changes_total", endpoint, by=0)
        if reason is not None:
            self._down_since.setdefault(endpoint, self._now())
            _log.error("judge endpoint down", endpoint=endpoint, error=reason)
        elif endpoint in self._down_since:
            seconds = round(self._now() - self._down_since.pop(endpoint), 3)
            _log.info("judge endpoint available again", endpoint=endpoint, down_seconds=seconds)
