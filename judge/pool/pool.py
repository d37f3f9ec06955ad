"""The endpoints of one worker, in order of preference: which is asked, and who waits while none can be."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from judge.chat import ChatClient
from judge.errors import JudgeConfigurationError
from judge.pool.admission import Admission, Slots
from judge.pool.breaker import Breaker
from judge.pool.guarded_chat import MISCONFIGURED_SECONDS, GuardedChat
from judge.pool.observer import PoolObserver, Unobserved

_SOON_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint and what it may be asked.

    Args:
        chat: The endpoint.
        max_in_flight: Calls at the same time; None for no bound but the pool's. At least 1.
        requests_per_minute: Its limit, where its headers do not tell it or tell too much; above 0.
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
        timeout_seconds: Time budget of a verdict: its calls, at whichever endpoints, and the pauses between them.
            Waiting for a turn does not count. When it is used up nothing is decided, and the verdict starts anew.
        first_wait_seconds: The first pause after a failure is at most this long; each further one twice as long.
        longest_wait_seconds: Up to this.
        breaker_failures: So many failures in a row, and an endpoint is taken for down.
        longest_breaker_seconds: Longest pause between two calls that try whether it is back.
    """

    timeout_seconds: float = 30.0
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    breaker_failures: int = 10
    longest_breaker_seconds: float = 5.0


class EndpointPool:
    """Endpoints in order of preference.

    The first that is not down is asked; while it is only busy, or at its limits, its calls wait for it, for a verdict of
    another model is another number. To be used in one event loop.

    Args:
        endpoints: In order of preference; at least one, with distinct names.
        max_in_flight: Calls at the same time over all endpoints; at least 1.
        patience: How failures are met.
        observer: Hears of calls and outages.
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
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
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
            observer=self.observer,
            clock=self.clock,
        )

    @property
    def trouble(self) -> str | None:
        """Why nobody can be asked; None while somebody can."""
        reasons = []
        for chat in self.chats:
            if not chat.breaker.is_open:
                return None
            reasons.append(chat.admission.trouble or chat.endpoint)
        return "; ".join(reasons)

    def choose(self, avoided: Collection[str] = ()) -> GuardedChat | None:
        """Choose whom to ask.

        Args:
            avoided: Names of endpoints to be asked only where no other can be.

        Returns:
            The first that is not down; None where all are.
        """
        second_choice = None
        for chat in self.chats:
            if chat.may_be_asked():
                if chat.endpoint not in avoided:
                    return chat
                second_choice = second_choice or chat
        return second_choice

    def take_out(self, chat: GuardedChat, error: JudgeConfigurationError) -> None:
        """Do without an endpoint whose configuration cannot work.

        Raises:
            JudgeConfigurationError: No endpoint is left, with what is wrong with each.
        """
        chat.take_down(str(error), MISCONFIGURED_SECONDS, misconfigured=True)
        wrong = [one.misconfigured for one in self.chats]
        if all(wrong):
            raise JudgeConfigurationError("; ".join(filter(None, wrong))) from error

    async def someone(self) -> None:
        """Wait until an endpoint may be asked. Where one is to be tried, one waiter at a time comes through."""
        if self.choose() is not None:
            await asyncio.sleep(0)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._arm()
        await turn

    async def rest(self, seconds: float) -> None:
        """Wait so long, or until an endpoint comes back."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self._change.wait()
                    if self.trouble is None:
                        return
        except TimeoutError:
            return

    def stop(self) -> None:
        """Start no more calls of its own accord; the endpoints stay the caller's to close."""
        if self._timer is not None:
            self._timer.cancel()
        for chat in self.chats:
            chat.admission.stop()

    def _changed(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()
        if self.trouble is None:
            waiting, self._waiting = self._waiting, deque()
            for turn in waiting:
                if not turn.done():
                    turn.set_result(None)
        else:
            self._arm()

    def _arm(self) -> None:
        """Look again when the first endpoint may be tried."""
        if not self._waiting:
            return
        seconds = min(chat.breaker.next_try_at for chat in self.chats) - self.clock()
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(seconds, _SOON_SECONDS), self._try_one)

    def _try_one(self) -> None:
        while self._waiting and self.choose() is not None:
            turn = self._waiting.popleft()
            if turn.done():  # cancelled
                continue
            turn.set_result(None)
            break
        self._arm()

    def _freed(self) -> None:
        for chat in self.chats:
            chat.admission.admit()
