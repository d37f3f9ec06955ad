"""Delivers verdicts to one receiver in batches, with retries."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import uniform
from typing import Final, Generic, Protocol, TypeVar

import aiohttp
import structlog

from judge.text.causes import cause_of
from streams.sinks.receivers import Answer, Call, SinkDownError, refusal

_log = structlog.stdlib.get_logger(__name__)

FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 60.0
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_AGAIN: Final = frozenset({408, 425, 429})


class RefusedError(Exception):
    """The receiver refuses this verdict; a retry does not help."""


class Http:
    """Makes calls to one address.

    Args:
        timeout_seconds: Time limit of one call.
    """

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._url = url
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None

    async def __call__(
        self, method: str, path: str, *, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        """Make one call.

        Raises:
            SinkDownError: There is no answer, or a temporary error (5xx, 408, 425, 429), or the credentials
                are refused (401, 403), which can be corrected without loss.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        try:
            async with self._session.request(
                method, self._url + path, data=body, headers=headers, allow_redirects=False
            ) as response:
                answer = Answer(response.status, await response.content.read(MAX_ANSWER_BYTES))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SinkDownError(cause_of(error)) from error
        if answer.status >= 500 or answer.status in _AGAIN or answer.status in {401, 403}:
            raise SinkDownError(refusal(answer))
        return answer

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


class Item(Protocol):
    """An item to deliver."""

    @property
    def key(self) -> str:
        """An id that stays the same on a retry."""


ItemT = TypeVar("ItemT", bound=Item)
TakenT_contra = TypeVar("TakenT_contra", bound=Item, contravariant=True)


class Form(Protocol[TakenT_contra]):
    """A receiver's protocol, for verdicts `streams.sinks.receivers.Receiver`."""

    def wants(self, one: TakenT_contra) -> bool:
        """Return whether the receiver can represent it."""

    async def send(self, call: Call, batch: Sequence[TakenT_contra]) -> Mapping[str, str]:
        """Send items; return the reason of each refused one by key."""


class Delivery(Generic[ItemT]):
    """Delivers to one receiver.

    One request at a time; while it is down, pauses grow and all records wait in Kafka.

    Args:
        batch: Maximum verdicts per request.
        linger_seconds: Maximum time to collect a batch.
        on_outcome: Receives the outcome (delivered, skipped or refused) and the number of verdicts.
    """

    def __init__(
        self,
        name: str,
        receiver: Form[ItemT],
        call: Http,
        *,
        batch: int,
        linger_seconds: float,
        on_outcome: Callable[[str, int], None],
    ) -> None:
        self.name = name
        self.trouble: str | None = None
        """The current error; None if there is none."""
        self._receiver = receiver
        self._call = call
        self._batch = batch
        self._linger_seconds = linger_seconds
        self._on_outcome = on_outcome
        self._waiting: deque[tuple[ItemT, asyncio.Future[None]]] = deque()
        self._working: asyncio.Task[None] | None = None

    async def put(self, one: ItemT) -> None:
        """Deliver a verdict; return when it was accepted.

        Raises:
            RefusedError: It was refused.
        """
        if not self._receiver.wants(one):
            self._on_outcome("skipped", 1)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((one, future))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        await future

    async def close(self) -> None:
        """Close the connections; undelivered verdicts are read again after a restart."""
        if self._working is not None:
            self._working.cancel()
        await self._call.close()

    async def _work(self) -> None:
        while self._waiting:
            if len(self._waiting) < self._batch:
                await asyncio.sleep(self._linger_seconds)
            batch = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            batch = [(one, future) for one, future in batch if not future.done()]  # cancelled meanwhile
            if batch:
                await self._deliver(batch)

    async def _deliver(self, batch: list[tuple[ItemT, asyncio.Future[None]]]) -> None:
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                refused = await self._receiver.send(self._call, [one for one, _ in batch])
            except SinkDownError as error:
                if self.trouble is None:
                    _log.error(
                        "a sink fails; retrying until it accepts verdicts",
                        sink=self.name,
                        error=str(error),
                    )
                self.trouble = str(error)
                await asyncio.sleep(uniform(wait / 2, wait))  # noqa: S311 - jitter, not security
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
                continue
            break
        if self.trouble is not None:
            _log.info("a sink accepts verdicts again", sink=self.name)
            self.trouble = None
        self._on_outcome("refused", len(refused))
        self._on_outcome("delivered", len(batch) - len(refused))
        for one, future in batch:
            if future.done():
                continue
            why = refused.get(one.key)
            if why is None:
                future.set_result(None)
            else:
                future.set_exception(RefusedError(why))
