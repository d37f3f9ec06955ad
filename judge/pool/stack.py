"""The judging stack: endpoints with their limits, prices and cache, opened and closed as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from judge.endpoint.nobody import NOBODY
from judge.metric import Metric, OwnProcess
from judge.pool.observer import PoolObserver
from judge.pool.panel.judge import Member, PanelJudge
from judge.pool.pool import Endpoint, EndpointPool, Patience
from judge.pool.reliable import ReliableJudge
from judge.verdict import aside
from judge.verdict.cache import VerdictCache
from judge.verdict.evaluator import Judge
from judge.verdict.pricing import PriceTable
from judge.verdict.processes.metric_process import MetricProcess
from judge.verdict.repair import DEFAULT_REPAIR_ATTEMPTS

SAMPLES_TEMPERATURE: Final = 1.0
"""At 0 a model says the same every time."""


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """How a stack judges.

    Args:
        max_in_flight: Concurrent calls over all endpoints; at least 1.
        patience: How failures are met.
        hedge_after_seconds: A call without a reply for this long is made a second time; None: never.
        max_output_tokens: Bound on a reply; None leaves it to the metric.
        repair_attempts: How often the judge may repair a reply that does not hold; 0 or more.
        verification_seconds: Bound on the time that reading an event's texts or a reply may take; above 0.
    """

    max_in_flight: int = 64
    patience: Patience = field(default_factory=Patience)
    hedge_after_seconds: float | None = None
    max_output_tokens: int | None = None
    repair_attempts: int = DEFAULT_REPAIR_ATTEMPTS
    verification_seconds: float = aside.DEFAULT_SECONDS


class JudgingStack:
    """What judges in one event loop; an asynchronous context manager that closes what it was given.

    Use `judge` where a verdict may take as long as it takes (a worker, a file), and `evaluator` where one try
    is wanted and its errors are the caller's to handle (the library, the doctor).

    Args:
        endpoints: In order of preference; at least one, with distinct names. Closed with the stack, unless
            borrowed.
        options: How it judges.
        prices: What tokens cost.
        cache: Verdicts given before. Closed with the stack.
        observer: Is notified of calls and outages.
        clock: Gives seconds and never goes back.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        options: JudgingOptions | None = None,
        *,
        prices: PriceTable | None = None,
        cache: VerdictCache | None = None,
        observer: PoolObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoints = tuple(endpoints)
        self._options = options or JudgingOptions()
        self._prices = prices
        self._cache = cache
        self._processes: list[MetricProcess] = []
        self.pool = EndpointPool(
            endpoints,
            max_in_flight=self._options.max_in_flight,
            patience=self._options.patience,
            observer=observer,
            clock=clock,
        )

    def judge(
        self,
        metric: Metric,
        *,
        endpoints: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
    ) -> ReliableJudge | Judge:
        """Give a metric's judge, which waits out what passes; what code decides has nothing to wait for.

        Args:
            metric: How it judges.
            endpoints: Names of those that may be asked, in order of preference; empty: all.
            parameters: Sampling parameters of this metric; they go before an endpoint's own.

        Raises:
            JudgeConfigurationError: No endpoint has one of these names.
        """
        if metric.mode == "code":
            return self.evaluator(metric)
        asked = self._asked(endpoints)
        window = smallest_window(one.context_tokens for one in asked)
        judges = {
            one.chat.endpoint: self.evaluator(metric, one, parameters=parameters, context_tokens=window)
            for one in asked
        }
        return ReliableJudge(judges, self.pool, hedge_after_seconds=self._options.hedge_after_seconds)

    def evaluator(
        self,
        metric: Metric,
        endpoint: Endpoint | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        cached: bool = True,
        context_tokens: int | None = None,
    ) -> Judge:
        """Give a metric's judge at one endpoint (default: the first), outside the pool's limits: one try.

        Args:
            metric: How it judges.
            endpoint: Where; None: at the first.
            parameters: Sampling parameters of this metric; they go before the endpoint's own.
            cached: Whether verdicts that were given before may be used.
            context_tokens: The window to which texts are fitted, where less than the endpoint's own.
        """
        if metric.mode == "code":
            return self._code_judge(metric)
        asked = endpoint or self.endpoints[0]
        return Judge(
            metric,
            asked.chat,
            prices=self._prices,
            parameters={**asked.parameters, **(parameters or {})},
            max_output_tokens=self._options.max_output_tokens,
            context_tokens=context_tokens or asked.context_tokens,
            repair_attempts=self._options.repair_attempts,
            cache=self._cache if cached else None,
            verification_seconds=self._options.verification_seconds,
        )

    def _code_judge(self, metric: Metric) -> Judge:
        bounds: OwnProcess | None = getattr(metric, "process", None)
        process = None if bounds is None else MetricProcess(bounds, name=metric.name)
        if process is not None:
            self._processes.append(process)
        return Judge(
            metric,
            NOBODY,
            verification_seconds=self._options.verification_seconds,
            process=process,
        )

    def panel(
        self,
        metric: Metric,
        *,
        endpoints: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
        samples: int = 1,
        quorum: int | None = None,
    ) -> PanelJudge:
        """Give a metric's panel: each of its endpoints has as many votes as there are samples.

        Args:
            metric: How it judges.
            endpoints: Names of the members, in the panel's order; empty: the first endpoint alone.
            parameters: Sampling parameters of this metric; they go before an endpoint's own.
            samples: Votes of each; at least 1. With more than one a temperature of 1 is asked for where the
                parameters name none, and no verdict comes from the cache: samples are to be independent.
            quorum: Verdicts that are needed; None: more than half of the votes.

        Raises:
            JudgeConfigurationError: No endpoint has one of these names.
        """
        members = []
        asked = self._asked(tuple(endpoints) or (self.endpoints[0].chat.endpoint,))
        window = smallest_window(one.context_tokens for one in asked)
        for one in asked:
            chat, own = one.chat, dict(parameters or {})
            if samples > 1 and "temperature" not in one.parameters:
                own.setdefault("temperature", SAMPLES_TEMPERATURE)
            for _ in range(samples):
                judge = self.evaluator(
                    metric, one, parameters=own, cached=samples == 1, context_tokens=window
                )
                asking = ReliableJudge(
                    {chat.endpoint: judge}, self.pool, hedge_after_seconds=self._options.hedge_after_seconds
                )
                members.append(Member(chat.endpoint, chat.model, judge.evaluator, asking))
        return PanelJudge(
            members,
            quorum=len(members) // 2 + 1 if quorum is None else quorum,
            score_range=metric.score_range,
        )

    def _asked(self, names: Sequence[str]) -> tuple[Endpoint, ...]:
        known = {one.chat.endpoint: one for one in self.endpoints}
        return tuple(known[chat.endpoint] for chat in self.pool.ask_among(names))

    async def close(self) -> None:
        """Stop waiting calls, and release connections and cache."""
        self.pool.stop()
        for endpoint in self.endpoints:
            if not endpoint.borrowed:
                await endpoint.chat.close()
        for process in self._processes:
            process.close()
        if self._cache is not None:
            self._cache.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def smallest_window(windows: Iterable[int | None]) -> int | None:
    """Give the smallest window of those that a metric may ask: what is cut must not depend on who answers."""
    return min((window for window in windows if window is not None), default=None)
