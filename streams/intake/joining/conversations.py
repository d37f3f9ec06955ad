"""The intake of conversations: events are judged singly, and together once their conversation is idle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.agent import Intake
from streams.intake.joining.gathering import Gathering, Joining, Kind
from streams.intake.joining.whole import joined
from streams.intake.sampling import SamplingPolicy
from streams.kafka.letters import Incoming


class ConversationIntake:
    """Decides the outcome of events that belong to conversations."""

    def __init__(
        self,
        *,
        read: Callable[[Any], Awaitable[QAEvent]],
        policy: SamplingPolicy,
        events: Intake,
        whole: Intake,
        joining: Joining,
    ) -> None:
        self._read = read
        self._policy = policy
        self._events = events
        self._whole = whole
        kind = Kind(
            noun="conversation",
            become=self._become,
            surprise=whole.on_surprise,
            read=self._kept,
            is_key=lambda key, conversation: key == conversation.encode("utf-8", "surrogatepass"),
            key_problem=_key_problem,
        )
        self._gathering = Gathering[QAEvent](kind, joining)

    async def handle(self, record: Incoming) -> None:
        """Take one record; return when its event and, if sampled, its conversation are processed.

        Raises:
            SettingsError: The topic's records are not keyed by conversation.
        """
        try:
            event = await self._read(record)
        except DecodeError as error:
            await self._events.refuse(record, error)
            return
        of_event = self._events.take(record, event, in_conversation=event.conversation_id is not None)
        if event.conversation_id is None or not self._policy.decide_event(event, record.key).keep:
            await of_event
            return
        # At once: until its task is written, its conversation would be closed without it.
        await asyncio.gather(self._gathering.add(record, {event.conversation_id: [event]}), of_event)

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Write a dead letter for a record after an unexpected error."""
        await self._events.on_surprise(record, error)

    def release(self) -> None:
        """Abandon all open conversations; the next owner reads their records again."""
        self._gathering.release()

    async def _become(self, record: Incoming, events: list[QAEvent]) -> None:
        await self._whole.take(record, joined(events), in_conversation=True)

    async def _kept(self, record: Any) -> dict[str, list[QAEvent]]:
        event = await self._read(record)
        if event.conversation_id is None or not self._policy.decide_event(event, record.key).keep:
            return {}
        return {event.conversation_id: [event]}


def _key_problem(got: str) -> str:
    return (
        "metrics.*.unit: conversation needs records keyed by conversation_id, otherwise a conversation is "
        f"spread over partitions {got}; use that key, or remove unit: conversation"
    )
