"""The endpoints of one worker, in order of preference: which is asked, and who waits while none can be."""

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
"""A gateway that refuses everything while what stands behind it starts must not end a worker."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint and what it may be asked.

    Args:
        chat: The endpoint.
        max_in_flight: Concurrent calls; None for no bound but the pool's. At least 1.
        requests_per_minute: Its limit, where its headers do not report it or tell too much; above 0.
        tokens_per_minute: Likewise, input and output together.
        call_seconds: Bound on one call; None for the pool's time budget. Above 0.
        parameters: Sampling parameters as the endpoint names them (temperature, seed, ...).
        context_tokens: The model's context window; None: the endpoint finds out what is too long.
        borrowed: Whether the chat stays the caller's to close.
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
    """How failures are met.

    Args:
        timeout_seconds: Time budget of a verdict: its calls, at whichever endpoints, and the pauses between
            them. Waiting for a turn does not count. When it is used up nothing is decided, and the verdict
            restarts.
        first_wait_seconds: The first pause after a failure is at most this long; each further one twice as
            long.
        longest_wait_seconds: Up to this.
        breaker_failures: This many consecutive failures open the breaker.
        longest_breaker_seconds: Longest pause between two probes that try whether it is back.
        confirm_seconds: For so long an endpoint that never answered must refuse neutral events for a reason
            that lies in the configuration, before it is abandoned.
    """

    timeout_seconds: float = 30.0
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    breaker_failures: int = 10
    longest_breaker_seconds: float = 5.0
    confirm_seconds: float = CONFIRM_SECONDS


class EndpointPool:
    """Endpoints in order of preference.

    The first that is not down is asked; while it is only busy, or at its limits, its calls wait for it, for a
    verdict of another model is another number. To be used in one event loop.

    Args:
        endpoints: In order of preference; at least one, with distinct names.
        max_in_flight: Concurrent calls over all endpoints; at least 1.
        patience: How failures are met.
        observer: Is notified of calls and outages.
        chance: Gives numbers from 0 to 1, evenly.
        clock: Gives seconds and never goes back.
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
        """Which endpoints metrics are judged at."""
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
        """Why some metric cannot be judged, because none of its endpoints can be asked.

        None while all can be.
        """
        found = (trouble_of(chats) for chats in self._asked or (self.chats,))
        return next((trouble for trouble in found if trouble is not None), None)

    def ask_among(self, names: Sequence[str]) -> tuple[GuardedChat, ...]:
        """Give the endpoints that a metric is judged at, in order of preference.

        Args:
            names: Theirs; empty for all, in the pool's order.

        Raises:
            JudgeConfigurationError: One of them is not in the pool.
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
        """Choose an endpoint.

        Args:
            avoided: Names of endpoints to be asked only where no other can be.
            among: The endpoints that may be asked, in order of preference; None: all.

        Returns:
            The first that is not down; None where all are.
        """
        second_choice = None
        for chat in among or self.chats:
            if chat.may_be_asked():
                if chat.endpoint not in avoided:
                    return chat
                second_choice = second_choice or chat
        return second_choice

    async def someone(self, among: Sequence[GuardedChat]) -> None:
        """Wait until one of these endpoints may be asked.

        Raises:
            JudgeConfigurationError: None ever will, as configured; with what is wrong with each.
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
        """Wait so long, or until one of these endpoints comes back.

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
        """Give up all that waits, in favour of what was already paid for.

        For the end of a worker, or of its partitions: a call that is sent now would be paid for and thrown
        away.

        Args:
            close: Whether no verdict may begin after this, as at the end of a worker; otherwise what comes
                later waits as ever.
        """
        self._drains += 1
        self._closed = self._closed or close
        for chat in self.chats:
            chat.admission.waiting.drain(close=close)
        self._changed()

    def stop(self) -> None:
        """Start no more calls of its own accord; the endpoints stay the caller's to close."""
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
    """Say why none of these endpoints can be asked; None while one can."""
    if not all(chat.breaker.is_open for chat in chats):
        return None
    return "; ".join(chat.admission.trouble or chat.endpoint for chat in chats)
