"""All endpoints of one event loop in order of preference, and the judges that ask them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from judge.endpoints.endpoint import Endpoint
from judge.endpoints.options import EndpointObserver, EndpointOptions, EndpointState, Patience
from judge.endpoints.panel import PanelJudge
from judge.endpoints.retrying import RetryingJudge
from judge.errors import DrainingError, JudgeConfigurationError
from judge.evaluate import limited
from judge.evaluate.cache import VerdictCache
from judge.evaluate.evaluator import DEFAULT_REPAIR_ATTEMPTS, Evaluator
from judge.evaluate.prices import PriceTable
from judge.metric import Metric, OwnProcess


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """Options of judging; pass it to `Judge` to change concurrency or retries.

    Args:
        max_in_flight: Concurrent calls over all endpoints; at least 1.
        max_output_tokens: None: the metric's own.
        verification_seconds: Time limit for processing an event's texts or a reply; above 0.
    """

    max_in_flight: int = 64
    patience: Patience = field(default_factory=Patience)
    max_output_tokens: int | None = None
    repair_attempts: int = DEFAULT_REPAIR_ATTEMPTS
    verification_seconds: float = limited.DEFAULT_SECONDS


class EndpointPool:
    """Endpoints, their cache and prices; an asynchronous context manager that closes them.

    The first endpoint that is up is asked; calls queue for it, because another model would give other scores.
    `judge` retries failures without a time limit (a worker, a file), and `evaluator` tries once (the doctor).
    """

    def __init__(
        self,
        endpoints: Sequence[EndpointOptions],
        options: JudgingOptions | None = None,
        *,
        prices: PriceTable | None = None,
        cache: VerdictCache | None = None,
        observer: EndpointObserver | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options or JudgingOptions()
        self.observer = observer or EndpointObserver()
        self.chance = chance
        self.clock = clock
        self._prices = prices
        self._cache = cache
        self.in_flight = 0
        self.endpoints = tuple(Endpoint(one, self) for one in endpoints)
        self._processes: list[limited.MetricProcess] = []
        self._used_lists: list[tuple[Endpoint, ...]] = []
        self._drains = 0
        self._closed = False
        self._change = asyncio.Event()
        for endpoint in self.endpoints:
            self.observer.down(endpoint.name, None)

    def judge(
        self, metric: Metric, *, endpoints: Sequence[str] = (), parameters: Mapping[str, Any] | None = None
    ) -> RetryingJudge | Evaluator:
        """Return a metric's judge, with retries; a code metric's judge calls no endpoint."""
        if metric.mode == "code":
            return self.evaluator(metric)
        judges = {}
        asked = self.named(endpoints)
        window = _smallest_window(asked)
        for one in asked:
            judges[one.name] = self.evaluator(metric, one, parameters=parameters, context_tokens=window)
        return RetryingJudge(judges, self)

    def evaluator(
        self,
        metric: Metric,
        endpoint: Endpoint | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        cached: bool = True,
        context_tokens: int | None = None,
    ) -> Evaluator:
        """Return a metric's judge at one endpoint, without retries and outside the limits."""
        seconds = self.options.verification_seconds
        if metric.mode == "code":
            bounds: OwnProcess | None = getattr(metric, "process", None)
            process = None if bounds is None else limited.MetricProcess(bounds, name=metric.name)
            self._processes += [] if process is None else [process]
            return Evaluator(metric, None, verification_seconds=seconds, process=process)
        asked = (endpoint or self.endpoints[0]).options
        return Evaluator(
            metric,
            asked.chat,
            prices=self._prices,
            parameters={**asked.parameters, **(parameters or {})},
            max_output_tokens=self.options.max_output_tokens,
            context_tokens=context_tokens or asked.context_tokens,
            repair_attempts=self.options.repair_attempts,
            cache=self._cache if cached else None,
            verification_seconds=seconds,
        )

    def panel(
        self,
        metric: Metric,
        *,
        endpoints: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
        samples: int = 1,
    ) -> PanelJudge:
        """Return a metric's panel, in which each endpoint (none: only the first) has `samples` votes.

        So that samples are independent, their temperature is 1 by default, and the cache is not used.
        """
        members = []
        asked = self.named(tuple(endpoints) or (self.endpoints[0].name,))
        window = _smallest_window(asked)
        for one in asked:
            own = dict(parameters or {})
            if samples > 1 and "temperature" not in one.options.parameters:
                own.setdefault("temperature", 1.0)
            for _ in range(samples):
                judge = self.evaluator(
                    metric, one, parameters=own, cached=samples == 1, context_tokens=window
                )
                members.append(RetryingJudge({one.name: judge}, self))
        return PanelJudge(members, score_range=metric.score_range)

    def named(self, names: Sequence[str] = ()) -> tuple[Endpoint, ...]:
        """Return a metric's endpoints, in order of preference; without names all."""
        known = {endpoint.name: endpoint for endpoint in self.endpoints}
        unknown = ", ".join(name for name in names if name not in known)
        if unknown:
            raise JudgeConfigurationError(f"no judge endpoint is called {unknown}; known: {', '.join(known)}")
        endpoints = tuple(known[name] for name in names) or self.endpoints
        if endpoints not in self._used_lists:
            self._used_lists.append(endpoints)
        return endpoints

    @property
    def trouble(self) -> str | None:
        """Why some metric cannot be judged: all of its endpoints are down."""
        troubles = (self._trouble_of(endpoints) for endpoints in self._used_lists or (self.endpoints,))
        return next((trouble for trouble in troubles if trouble is not None), None)

    @property
    def states(self) -> tuple[EndpointState, ...]:
        return tuple(endpoint.state for endpoint in self.endpoints)

    @staticmethod
    def choose(endpoints: Sequence[Endpoint], avoided: Collection[str] = ()) -> Endpoint | None:
        """Return the preferred endpoint that is up, an avoided one only if no other is; None if none is."""
        up = [endpoint for endpoint in endpoints if endpoint.is_up]
        return next((endpoint for endpoint in up if endpoint.name not in avoided), up[0] if up else None)

    @staticmethod
    def _trouble_of(endpoints: Sequence[Endpoint]) -> str | None:
        if not endpoints or any(endpoint.is_up for endpoint in endpoints):
            return None
        told = ((one.reason, one.remedy) for one in (endpoint.state for endpoint in endpoints))
        return "; ".join(reason if remedy in reason else f"{reason}. {remedy}" for reason, remedy in told)

    async def until_one_is_up(self, endpoints: Sequence[Endpoint]) -> None:
        drains = self._drains
        while self._trouble_of(endpoints) is not None:
            errors = [endpoint.misconfigured for endpoint in endpoints]
            if all(errors):
                raise JudgeConfigurationError("; ".join(filter(None, errors)))
            await self._next_change(drains)

    async def pause(self, seconds: float, endpoints: Sequence[Endpoint]) -> None:
        """Wait this long, or until one of these endpoints recovers."""
        drains = self._drains
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._next_change(drains)
                while self._trouble_of(endpoints) is not None:
                    await self._next_change(drains)

    async def _next_change(self, drains: int) -> None:
        if not self._closed:
            await self._change.wait()
        if self._closed or self._drains != drains:
            raise DrainingError("cancelled while waiting for an endpoint")

    def changed(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()

    def call_ended(self) -> None:
        self.in_flight -= 1
        for endpoint in self.endpoints:
            endpoint.limiter.admit()

    def drain(self, *, close: bool = False) -> None:
        """Cancel queued calls, except of verdicts with a call already sent: a new result would be lost."""
        self._drains += 1
        self._closed = self._closed or close
        for endpoint in self.endpoints:
            endpoint.limiter.drain(close=close)
            if endpoint.lane is not None:
                endpoint.lane.drain(close=close)
        self.changed()

    async def close(self) -> None:
        for endpoint in self.endpoints:
            endpoint.stop()
        for endpoint in self.endpoints:
            if not endpoint.options.borrowed:
                await endpoint.options.chat.close()
        for process in self._processes:
            process.close()
        if self._cache is not None:
            self._cache.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _smallest_window(endpoints: Sequence[Endpoint]) -> int | None:
    """Return the smallest known context window, so that `too_long` does not depend on the endpoint."""
    windows = (one.options.context_tokens for one in endpoints)
    return min((window for window in windows if window is not None), default=None)
