"""The endpoints of one worker, in order of preference: choice, outages, draining."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from judge.chat import ChatClient
from judge.errors import DrainingError, JudgeConfigurationError
from judge.pool.breaker import Breaker
from judge.pool.guarded_chat import GuardedChat
from judge.pool.limits.admission import Admission
from judge.pool.limits.waiting import Slots
from judge.pool.observer import PoolObserver, Unobserved

CONFIRM_SECONDS: Final = 10.0
"""Long enough for a gateway whose backend is still starting."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint with its limits and parameters.

    Args:
        chat: The endpoint.
        max_in_flight: Limit of concurrent calls, at least 1; None: only the pool's limit.
        requests_per_minute: Its limit, if its headers report none or one that is too high; above 0.
        tokens_per_minute: Likewise, input and output together.
        call_seconds: Time limit of one call, above 0; None: the pool's time budget.
        parameters: Sampling parameters as the endpoint names them (temperature, seed, ...).
        context_tokens: The model's context window; None: unknown, the endpoint refuses texts that are too
            long.
        borrowed: Whether the caller closes the chat.
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
    """Retries, time budget and breaker; pass it in `JudgingOptions` to change them.

    Args:
        timeout_seconds: Time budget of a verdict: its calls at all endpoints and the pauses between them, but
            not time in the queue. When it is used up, the verdict restarts.
        first_wait_seconds: Upper limit of the first pause after a failure; it doubles with each further one.
        longest_wait_seconds: Upper limit of the doubling pauses.
        breaker_failures: Consecutive failures that open the breaker.
        longest_breaker_seconds: Longest pause between two probes of an endpoint that is down.
        confirm_seconds: Time during which an endpoint that never answered must refuse neutral events because
            of the configuration before it is abandoned.
    """

    timeout_seconds: float = 30.0
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    breaker_failures: int = 10
    longest_breaker_seconds: float = 5.0
    confirm_seconds: float = CONFIRM_SECONDS


class EndpointPool:
    """Endpoints in order of preference.

    The first endpoint that is not down is asked. While it is busy or at its limits, calls queue for it,
    because another model would give other scores. For use in one event loop.

    Args:
        endpoints: In order of preference; at least one, with distinct names.
        max_in_flight: Concurrent calls over all endpoints; at least 1.
        patience: Retries, time budget and breaker.
        observer: Notified of calls and outages.
        chance: Returns uniform random numbers from 0 to 1.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        max_in_flight: int = 64,
        patience: Patience | None = None,
        observer: PoolObserver | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.patience = patience or Patience()
        self.observer: PoolObserver = observer or Unobserved()
        self.chance = chance
        self.clock = clock
        slots = Slots(max_in_flight)
        self.chats: tuple[GuardedChat, ...] = tuple(self._guarded(one, slots) for one in endpoints)
        self._asked: list[tuple[GuardedChat, ...]] = []
        """The lists of endpoints that metrics use."""
        self._drains = 0
        self._closed = False
        self._change = asyncio.Event()
        for chat in self.chats:
            chat.on_change = self._changed
            if len(self.chats) > 1:
                chat.admission.on_free = self._freed
            self.observer.down(chat.endpoint, None)

    def _guarded(self, endpoint: Endpoint, slots: Slots) -> GuardedChat:
        patience = self.patience
        breaker = Breaker(
            failures=patience.breaker_failures,
            longest_pause_seconds=patience.longest_breaker_seconds,
            chance=self.chance,
        )
        admission = Admission(
            endpoint.chat.endpoint,
            slots=slots,
            breaker=breaker,
            max_in_flight=min(slots.most, endpoint.max_in_flight or slots.most),
            requests_per_minute=endpoint.requests_per_minute,
            tokens_per_minute=endpoint.tokens_per_minute,
            longest_pause_seconds=patience.timeout_seconds,
            observer=self.observer,
            chance=self.chance,
            clock=self.clock,
        )
        return GuardedChat(
            endpoint.chat,
            admission=admission,
            breaker=breaker,
            turns=slots.turns,
            call_seconds=min(patience.timeout_seconds, endpoint.call_seconds or patience.timeout_seconds),
            budget_seconds=patience.timeout_seconds,
            confirm_seconds=patience.confirm_seconds,
            observer=self.observer,
            clock=self.clock,
        )

    @property
    def trouble(self) -> str | None:
        """Why some metric cannot be judged: all of its endpoints are down.

        None while all metrics can be judged.
        """
        found = (trouble_of(chats) for chats in self._asked or (self.chats,))
        return next((trouble for trouble in found if trouble is not None), None)

    def ask_among(self, names: Sequence[str]) -> tuple[GuardedChat, ...]:
        """Return the endpoints of a metric, in order of preference.

        Args:
            names: Endpoint names; empty: all, in the pool's order.

        Raises:
            JudgeConfigurationError: An endpoint is not in the pool.
        """
        known = {chat.endpoint: chat for chat in self.chats}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise JudgeConfigurationError(
                f"no judge endpoint is called {', '.join(unknown)}; known: {', '.join(known)}"
            )
        chats = tuple(known[name] for name in names) or self.chats
        if chats not in self._asked:
            self._asked.append(chats)
        return chats

    def choose(
        self, avoided: Collection[str] = (), among: Sequence[GuardedChat] | None = None
    ) -> GuardedChat | None:
        """Return the preferred endpoint that is not down; None if all are.

        Args:
            avoided: Names of endpoints to use only if no other is available.
            among: The endpoints that may be asked, in order of preference; None: all.

        """
        second_choice = None
        for chat in among or self.chats:
            if chat.may_be_asked():
                if chat.endpoint not in avoided:
                    return chat
                second_choice = second_choice or chat
        return second_choice

    async def someone(self, among: Sequence[GuardedChat]) -> None:
        """Wait until one of these endpoints is up.

        Raises:
            JudgeConfigurationError: All of them are misconfigured; lists each error.
            DrainingError: `drain` was called meanwhile.
        """
        drains = self._drains
        while self.choose(among=among) is None:
            wrong = [chat.misconfigured for chat in among]
            if all(wrong):
                raise JudgeConfigurationError("; ".join(filter(None, wrong)))
            await self._next_change(drains)
        await asyncio.sleep(0)

    async def rest(self, seconds: float, among: Sequence[GuardedChat]) -> None:
        """Wait this long, or until one of these endpoints recovers.

        Raises:
            DrainingError: `drain` was called meanwhile.
        """
        drains = self._drains
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self._next_change(drains)
                    if trouble_of(among) is None:
                        return
        except TimeoutError:
            return

    def drain(self, *, close: bool = False) -> None:
        """Cancel queued calls, except those of verdicts with a call already sent.

        Use it before a worker stops or its partitions are revoked: the result of a new call would be lost.

        Args:
            close: Whether to refuse new verdicts, too, as at the end of a worker.
        """
        self._drains += 1
        self._closed = self._closed or close
        for chat in self.chats:
            chat.admission.waiting.drain(close=close)
        self._changed()

    def stop(self) -> None:
        """Cancel timers and probes; the caller closes the endpoints."""
        for chat in self.chats:
            chat.stop()

    async def _next_change(self, drains: int) -> None:
        if not self._closed:
            await self._change.wait()
        if self._closed or self._drains != drains:
            raise DrainingError("cancelled while waiting for an endpoint")

    def _changed(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()

    def _freed(self) -> None:
        for chat in self.chats:
            chat.admission.admit()


def trouble_of(chats: Sequence[GuardedChat]) -> str | None:
    """Return why all of these endpoints are down; None while one is up."""
    if not all(chat.breaker.is_open for chat in chats):
        return None
    return "; ".join(chat.admission.trouble or chat.endpoint for chat in chats)
