"""The intakes that join: parts of traces to one event each, and events of a conversation.

A conversation's events are judged singly, and together once it is idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from schemas import ChatMessage, QAEvent
from schemas.event import MAX_MESSAGES
from streams.errors import DecodeError
from streams.intake.joining.gathering import Gathering, Joining
from streams.intake.reader import GroupSampler, read_beside
from streams.intake.selector import Intake
from streams.kafka.record import Record

T = TypeVar("T")


class GroupIntake(Gathering[T]):
    """Decides the outcome of groups, such as traces."""

    def __init__(self, *, sampler: GroupSampler[T], intake: Intake, joining: Joining) -> None:
        self._sampler = sampler
        self._reader = sampler.reader
        super().__init__(self._reader.noun, joining, self._reader.is_complete)
        self._intake = intake
        self._counts = joining.counts

    async def handle(self, record: Record) -> None:
        """Take one record; return when the output of its groups is written."""
        try:
            groups, skipped = self._sampler.read(record)
        except DecodeError as error:
            await self._intake.refuse(record, error)
            return
        if skipped:
            self._counts.count_event("skipped", self._sampler.skip_reason, count=skipped)
        if self._reader.bounds is None:
            for parts in groups.values():
                await self.become(record, parts)
        elif groups:
            await self.add(record, groups)

    async def on_surprise(self, record: Record, error: Exception) -> None:
        await self._intake.on_surprise(record, error)

    def is_key(self, key: bytes | None, group: str) -> bool:
        return self._reader.is_key(key, group)

    def key_problem(self, got: str) -> str:
        return self._reader.key_problem(got)

    async def parts_of(self, record: Record) -> dict[str, list[T]]:
        return self._sampler.read(record)[0]

    async def become(self, record: Record, parts: list[T]) -> None:
        """Build the events of one group's parts, and pass them to the intake."""
        reader = self._reader
        try:
            reading = await read_beside(reader.size(parts), reader.read, parts)
        except DecodeError as error:
            await self._intake.refuse(record, error)
            return
        for family in reading.silent:
            self._counts.count("judgestream_traces_without_content_total", family)
        if reading.why_none is not None:
            self._counts.count_event("skipped", reading.why_none)
        for event in reading.events:
            await self._intake.take(record, event)
        await asyncio.sleep(0)  # a record may hold hundreds of groups


class ConversationIntake(Gathering[QAEvent]):
    """Decides the outcome of events that belong to conversations."""

    def __init__(self, *, events: Intake, whole: Intake, joining: Joining) -> None:
        super().__init__("conversation", joining)
        self._policy = events.selector.policy
        self._events = events
        self._whole = whole

    async def handle(self, record: Record) -> None:
        """Take one record; return when its event and, if sampled, its conversation are processed."""
        try:
            event = await self._events.read(record)
        except DecodeError as error:
            await self._events.refuse(record, error)
            return
        of_event = self._events.take(record, event, in_conversation=event.conversation_id is not None)
        if event.conversation_id is None or not self._policy.decide_event(event, record.key).keep:
            await of_event
            return
        # At once: until its task is written, its conversation would be closed without it.
        await asyncio.gather(self.add(record, {event.conversation_id: [event]}), of_event)

    async def on_surprise(self, record: Record, error: Exception) -> None:
        await self._events.on_surprise(record, error)

    def is_key(self, key: bytes | None, group: str) -> bool:
        return key == group.encode("utf-8", "surrogatepass")

    def key_problem(self, got: str) -> str:
        return (
            "metrics.*.unit: conversation needs records keyed by conversation_id, otherwise a conversation "
            f"is spread over partitions {got}; use that key, or remove unit: conversation"
        )

    async def become(self, record: Record, events: list[QAEvent]) -> None:
        await self._whole.take(record, joined(events), in_conversation=True)

    async def parts_of(self, record: Record) -> dict[str, list[QAEvent]]:
        event = await self._events.read(record)
        if event.conversation_id is None or not self._policy.decide_event(event, record.key).keep:
            return {}
        return {event.conversation_id: [event]}


def joined(events: Sequence[QAEvent]) -> QAEvent:
    """Return one event for all events of a conversation.

    Its id is the conversation's, its `messages` are the latest 200 turns, and the rest is the last event's.
    An event with the conversation so far, or its latest messages, adds its new messages; another event adds
    its question and answer.
    Duplicates are ignored; there must be at least one event.
    """
    distinct = {event.event_id: event for event in reversed(events)}
    in_order = list(reversed(distinct.values()))
    if all(event.occurred_at is not None for event in in_order):
        in_order.sort(key=lambda event: (event.occurred_at is None, event.occurred_at))
    turns: list[ChatMessage] = []
    for event in in_order:
        said = _said(event)
        turns += said[_repeated(turns, said) if event.messages else 0 :]
    last = in_order[-1]
    return last.model_copy(
        update={"event_id": last.conversation_id, "messages": tuple(turns[-MAX_MESSAGES:])}
    )


def _said(event: QAEvent) -> list[ChatMessage]:
    """Return the turns of an event, including its answer."""
    answer = ChatMessage(role="assistant", content=event.answer)
    if not event.messages:
        return [ChatMessage(role="user", content=event.question), answer]
    return [*event.messages] if event.messages[-1].role == "assistant" else [*event.messages, answer]


def _repeated(turns: Sequence[ChatMessage], said: Sequence[ChatMessage]) -> int:
    """Return how many first messages of an event repeat the last turns before it (Knuth, Morris, Pratt)."""
    fallbacks = [0]
    for message in said[1:]:
        fallbacks.append(_longer(fallbacks[-1], message, said, fallbacks))
    matched = 0
    for turn in turns[-len(said) :]:
        if matched == len(said):
            matched = fallbacks[-1]
        matched = _longer(matched, turn, said, fallbacks)
    return matched


def _longer(matched: int, message: ChatMessage, said: Sequence[ChatMessage], fallbacks: list[int]) -> int:
    while matched and said[matched] != message:
        matched = fallbacks[matched - 1]
    return matched + (said[matched] == message)
