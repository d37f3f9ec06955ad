"""The judging stack: endpoints with their limits, prices and cache, opened and closed together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from judge.endpoints.clients import NOBODY
from judge.endpoints.options import EndpointObserver, EndpointOptions, Patience
from judge.endpoints.panel import Member, PanelJudge
from judge.endpoints.pool import EndpointPool, RetryingJudge
from judge.evaluate import limited
from judge.evaluate.cache import VerdictCache
from judge.evaluate.evaluator import DEFAULT_REPAIR_ATTEMPTS, Evaluator
from judge.evaluate.limited import MetricProcess
from judge.evaluate.prices import PriceTable
from judge.metric import Metric, OwnProcess

SAMPLES_TEMPERATURE: Final = 1.0
"""At 0 all samples would be equal."""


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """Options of a judging stack; pass it to `Judge` to change concurrency or retries.

    Args:
        max_in_flight: Concurrent calls over all endpoints; at least 1.
        max_output_tokens: Limit of a reply; None: the metric's own.
        repair_attempts: How often the judge may repair an invalid reply; 0 or more.
        verification_seconds: Time limit for processing an event's texts or a reply; above 0.
    """

    max_in_flight: int = 64
    patience: Patience = field(default_factory=Patience)
    max_output_tokens: int | None = None
    repair_attempts: int = DEFAULT_REPAIR_ATTEMPTS
    verification_seconds: float = limited.DEFAULT_SECONDS


class JudgingStack:
    """Builds the judges of one event loop; an asynchronous context manager that closes its resources.

    Use `judge` if failures are to be retried without a time limit (a worker, a file), and `evaluator` for a
    single try whose errors you handle (the library, the doctor).
    """

    def __init__(
        self,
        endpoints: Sequence[EndpointOptions],
        options: JudgingOptions | None = None,
        *,
        prices: PriceTable | None = None,
        cache: VerdictCache | None = None,
        observer: EndpointObserver | None = None,
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
    ) -> RetryingJudge | Evaluator:
        """Return a metric's judge, with retries; a code metric's judge calls no endpoint."""
        if metric.mode == "code":
            return self.evaluator(metric)
        asked = self._asked(endpoints)
        window = _smallest_window(asked)
        judges = {
            one.chat.endpoint: self.evaluator(metric, one, parameters=parameters, context_tokens=window)
            for one in asked
        }
        return RetryingJudge(judges, self.pool)

    def evaluator(
        self,
        metric: Metric,
        endpoint: EndpointOptions | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        cached: bool = True,
        context_tokens: int | None = None,
    ) -> Evaluator:
        """Return a metric's judge at one endpoint, without retries and outside the pool's limits."""
        if metric.mode == "code":
            return self._code_judge(metric)
        asked = endpoint or self.endpoints[0]
        return Evaluator(
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

    def _code_judge(self, metric: Metric) -> Evaluator:
        bounds: OwnProcess | None = getattr(metric, "process", None)
        process = None if bounds is None else MetricProcess(bounds, name=metric.name)
        if process is not None:
            self._processes.append(process)
        seconds = self._options.verification_seconds
        return Evaluator(metric, NOBODY, verification_seconds=seconds, process=process)

    def panel(
        self,
        metric: Metric,
        *,
        endpoints: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
        samples: int = 1,
    ) -> PanelJudge:
        """Return a metric's panel, in which each endpoint (none: only the first) has `samples` votes.

        With several samples, the temperature is 1 unless the parameters name one, and the cache is not used,
        so that samples are independent.
        """
        members = []
        asked = self._asked(tuple(endpoints) or (self.endpoints[0].chat.endpoint,))
        window = _smallest_window(asked)
        for one in asked:
            chat, own = one.chat, dict(parameters or {})
            if samples > 1 and "temperature" not in one.parameters:
                own.setdefault("temperature", SAMPLES_TEMPERATURE)
            for _ in range(samples):
                judge = self.evaluator(
                    metric, one, parameters=own, cached=samples == 1, context_tokens=window
                )
                asking = RetryingJudge({chat.endpoint: judge}, self.pool)
                members.append(Member(chat.endpoint, chat.model, judge.evaluator, asking))
        return PanelJudge(members, score_range=metric.score_range)

    def _asked(self, names: Sequence[str]) -> tuple[EndpointOptions, ...]:
        known = {one.chat.endpoint: one for one in self.endpoints}
        return tuple(known[endpoint.name] for endpoint in self.pool.named(names))

    async def close(self) -> None:
        """Cancel waiting calls, and close endpoints, processes and cache."""
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


def _smallest_window(endpoints: Iterable[EndpointOptions]) -> int | None:
    """Return the smallest known context window, so that `too_long` does not depend on the endpoint."""
    windows = (one.context_tokens for one in endpoints)
    return min((window for window in windows if window is not None), default=None)
