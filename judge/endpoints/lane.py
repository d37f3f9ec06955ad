"""The batch lane of one endpoint: requests that may wait are sent together, at a lower price.

**A batch's life.** Its record, with the ids of its requests, is written to a log and read back; then the file
is uploaded, the batch is created with the record's key in its metadata, and the record is written again with
the batch's id. So the next reader of a request finds its batch: by its id, else by listing the batches. Of
two records with the same request the log's first one holds it; the one with a batch's id names only what the
batch has, so that this stays clear when the log is compacted.

**Never twice.** A process uploads only within `SEND_FACTOR` time limits of a call after it has begun, and
another one looks for the batch after `TAKE_OVER_FACTOR`; what then has no batch was not sent.

A request is **missed**, and asked singly, if its batch has no single usable reply to it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Final, Protocol

from judge.chat import ChatReply, ChatRequest
from judge.endpoints.connection import BatchApi, write_line
from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.options import EndpointObserver
from judge.endpoints.payloads import is_about_another
from judge.errors import (
    BatchMissedError,
    DrainingError,
    JudgeConfigurationError,
    JudgeError,
    JudgeUnavailableError,
)
from schemas import JudgeTask

_log = logging.getLogger(__name__)

SEND_FACTOR: Final = 6.0
TAKE_OVER_FACTOR: Final = 8.0
"""Both in time limits of a call."""
FINAL: Final = frozenset({"completed", "failed", "expired", "cancelled"})
CANCEL_SECONDS: Final = 900.0
"""How long a cancelled batch may take to end; providers state 10 minutes."""
KEPT_SECONDS: Final = 3600.0
"""How long a batch is known after that: tasks whose offset was not committed may be read again."""
POLLS: Final = 20
"""Polls within the time that a batch is open, at most one in `LONGEST_POLL_SECONDS`."""
LONGEST_POLL_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What the log holds of a batch; `ids` are those of its requests' results."""

    key: str
    endpoint: str
    ids: tuple[str, ...]
    created_at: float
    """Seconds since the epoch, which other processes compare."""
    batch_id: str = ""
    """The endpoint's id; empty: it may not exist."""


class BatchLog(Protocol):
    """The log of all batches. What it reads, from the beginning on, is passed to `BatchLane.heard`."""

    async def put(self, record: BatchRecord) -> None:
        """Write a record, and wait until it has been read."""

    async def drop(self, key: str) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchOptions:
    close_after_seconds: float
    give_up_after_seconds: float
    max_requests: int
    fast_share: float
    """Share of the events that are to be asked singly."""
    call_seconds: float
    price_factor: float = 0.5

    @property
    def longest_seconds(self) -> float:
        return self.close_after_seconds + self.give_up_after_seconds + CANCEL_SECONDS


@dataclass(slots=True, eq=False)
class _Waiter:
    task: JudgeTask
    request: ChatRequest
    future: asyncio.Future[ChatReply | None]
    users: int = 0


@dataclass(slots=True)
class _Batch:
    record: BatchRecord
    heard_at: float
    is_cancelled: bool = False


class BatchLane:
    """Gathers requests into batches; `hurried`: an unsent task must be judged at once after all."""

    def __init__(
        self,
        chat: OpenAIChat,
        options: BatchOptions,
        log: BatchLog,
        *,
        observer: EndpointObserver | None = None,
        hurried: Callable[[JudgeTask], bool] = lambda _: False,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.endpoint, self.options = chat.endpoint, options
        self._chat, self._log, self._hurried = chat, log, hurried
        self._observer = observer or EndpointObserver()
        self._api = BatchApi(chat)
        self._clock, self._now = clock, now
        self._waiting: dict[str, _Waiter] = {}
        self._open: dict[str, bytes] = {}
        self._opened_at = 0.0
        self._batches: dict[str, _Batch] = {}
        self._holders: dict[str, str] = {}
        """The key of the batch that holds a request."""
        self._sending: set[asyncio.Task[None]] = set()
        self._full = asyncio.Event()
        self._closed = False

    def waiting(self) -> int:
        return len(self._waiting)

    async def ask(self, task: JudgeTask, request: ChatRequest) -> ChatReply:
        """Wait for the reply of a batch to a task's first request; BatchMissedError: there is none."""
        if self._closed:
            raise _given_up()
        name = task.result_id
        waiter = self._waiting.get(name)
        if waiter is None:
            waiter = _Waiter(task, request, asyncio.get_running_loop().create_future())
            self._waiting[name] = waiter
            if name not in self._holders:
                self._opened_at = self._opened_at if self._open else self._clock()
                self._open[name] = write_line(name, self._chat.body(request))
                if len(self._open) >= self.options.max_requests:
                    self._full.set()
        waiter.users += 1
        try:
            reply = await asyncio.shield(waiter.future)
        finally:
            waiter.users -= 1
            if not waiter.users and self._waiting.get(name) is waiter:
                del self._waiting[name]
                self._open.pop(name, None)
        if reply is None:
            raise BatchMissedError(f"no batch of judge endpoint {self.endpoint} has a reply")
        return reply

    def drain(self, *, close: bool = False) -> None:
        """Abandon all requests: the next reader of their tasks finds their batches."""
        self._closed = self._closed or close
        error = _given_up()
        for waiter in self._waiting.values():
            if not waiter.future.done():
                waiter.future.set_exception(error)
                waiter.future.exception()  # also if nobody waits any more
        self._waiting.clear()
        self._open.clear()

    def heard(self, key: str, record: BatchRecord | None) -> None:
        """Take the log's next record; None: it was deleted."""
        known = self._batches.get(key)
        if record is None:
            if known is not None:
                del self._batches[key]
                self._deliver(self._names(known.record), {})
                self._holders = {name: holder for name, holder in self._holders.items() if holder != key}
        elif record.endpoint != self.endpoint:
            return
        else:
            self._batches[key] = _Batch(record, self._clock() if known is None else known.heard_at)
            for name in record.ids:
                if record.batch_id:
                    self._holders[name] = key
                self._holders.setdefault(name, key)
                self._open.pop(name, None)

    async def run(self, is_ready: Callable[[], bool] = lambda: True) -> None:
        """Send batches and collect replies, once the log can be written, until cancelled."""
        poll_seconds = min(self.options.close_after_seconds / POLLS, LONGEST_POLL_SECONDS)
        polled_at = self._clock()
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), poll_seconds)
            self._full.clear()
            if not is_ready():
                continue
            try:
                self._close_due()
                if self._clock() - polled_at >= poll_seconds:
                    polled_at = self._clock()
                    await asyncio.gather(*map(self._attend, tuple(self._batches.values())))
            except Exception as error:  # noqa: BLE001 - all that waits would stand still
                _log.error("batches of judge endpoint %s: %r; retrying", self.endpoint, error)

    def _close_due(self) -> None:
        """Give up hurried requests, and send the open batch if it is full or old enough."""
        hurried = [name for name in self._open if self._hurried(self._waiting[name].task)]
        for name in hurried:
            del self._open[name]
        self._deliver(hurried, {})
        most, is_due = self.options.max_requests, self._clock() - self._opened_at
        while self._open and (len(self._open) >= most or is_due >= self.options.close_after_seconds):
            lines = {name: self._open.pop(name) for name in tuple(self._open)[:most]}
            sending = asyncio.create_task(self._send(lines))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)
            self._opened_at = self._clock()

    async def _send(self, lines: Mapping[str, bytes]) -> None:
        record = BatchRecord(token_hex(12), self.endpoint, tuple(lines), self._now())
        began, seconds = self._clock(), SEND_FACTOR * self.options.call_seconds
        may_exist = False
        try:
            async with asyncio.timeout(seconds):
                await self._log.put(record)
                mine = self._names(record)
                file_id = await self._api.upload([lines[name] for name in mine]) if mine else ""
                if mine and self._clock() - began < seconds:  # else this process was stopped meanwhile
                    may_exist = True
                    batch_id = await self._api.create(file_id, record.key)
                    await self._log.put(replace(record, ids=tuple(mine), batch_id=batch_id))
                    return
        except (TimeoutError, JudgeError) as error:
            _log.warning("a batch of judge endpoint %s was not sent: %s", self.endpoint, error)
            if may_exist and isinstance(error, TimeoutError | JudgeUnavailableError):
                return  # it is looked for
        await self._log.drop(record.key)

    def _names(self, record: BatchRecord) -> list[str]:
        """Return which of a record's requests wait here, and are held by it."""
        return [one for one in record.ids if one in self._waiting and self._holders.get(one) == record.key]

    async def _attend(self, batch: _Batch) -> None:
        record, age = batch.record, self._now() - batch.record.created_at
        patience = self.options.give_up_after_seconds + CANCEL_SECONDS
        try:
            async with asyncio.timeout(SEND_FACTOR * self.options.call_seconds):
                if age > patience + KEPT_SECONDS:
                    await self._forget(record)
                elif self._names(record):
                    await (self._poll(batch, age) if record.batch_id else self._look_for(batch))
        except (TimeoutError, JudgeUnavailableError, JudgeConfigurationError) as error:
            _log.warning("a batch of judge endpoint %s cannot be read: %s", self.endpoint, error)
            if age > patience or isinstance(error, JudgeConfigurationError):
                self._deliver(self._names(record), {})

    async def _look_for(self, batch: _Batch) -> None:
        """Find a batch whose creator has not written its id; without one it was not sent."""
        if self._clock() - batch.heard_at < TAKE_OVER_FACTOR * self.options.call_seconds:
            return
        record = batch.record
        batch_id = await self._api.find(record.key, since=record.created_at)
        if batch_id is None:
            await self._log.drop(record.key)
        else:
            ids = tuple(name for name in record.ids if self._holders.get(name) == record.key)
            await self._log.put(replace(record, ids=ids, batch_id=batch_id))

    async def _poll(self, batch: _Batch, age: float) -> None:
        record, limit = batch.record, self.options.give_up_after_seconds
        state = await self._api.retrieve(record.batch_id)
        if state.status in FINAL:
            replies = await self._api.replies(state, requests=len(record.ids))
            self._deliver(self._names(record), replies)
        elif age > limit + CANCEL_SECONDS:
            self._deliver(self._names(record), {})
        elif age > limit and not batch.is_cancelled:
            batch.is_cancelled = True
            await self._api.cancel(record.batch_id)

    async def _forget(self, record: BatchRecord) -> None:
        if record.batch_id:
            with suppress(JudgeConfigurationError):  # it may be gone
                await self._api.discard(await self._api.retrieve(record.batch_id))
        await self._log.drop(record.key)

    def _deliver(self, names: Iterable[str], bodies: Mapping[str, bytes | None]) -> None:
        """Answer requests by the bodies; one without a body is missed."""
        for name in names:
            waiter = self._waiting.get(name)
            if waiter is not None and not waiter.future.done():
                waiter.future.set_result(self._reply(waiter.request, bodies.get(name)))

    def _reply(self, request: ChatRequest, body: bytes | None) -> ChatReply | None:
        """Return a reply as a single call would give it, with its tokens counted; None if it gives none."""
        if body is None:
            return None
        try:
            reply, is_good = self._chat.reply(body, request), True
        except JudgeError as error:
            if error.reply is None:
                return None
            reply, is_good = error.reply, False
        is_good = is_good and not is_about_another(request.messages[-1].content, reply.text)
        factor, model = self.options.price_factor, self._chat.model
        self._observer.used(self.endpoint, model, reply.usage, for_verdict=is_good, price_factor=factor)
        return replace(reply, price_factor=factor) if is_good else None


def _given_up() -> DrainingError:
    return DrainingError("the worker gives up a task that waits for a batch")
