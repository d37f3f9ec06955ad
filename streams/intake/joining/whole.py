"""Join a whole conversation to one event. Pure, in time linear in its events."""

from __future__ import annotations

from collections.abc import Sequence

from schemas import ChatMessage, QAEvent
from schemas.event import MAX_MESSAGES


def joined(events: Sequence[QAEvent]) -> QAEvent:
    """Return one event for all events of a conversation.

    Its id is the conversation's, its `messages` are the latest 200 turns, and the rest is the last event's.
    An event with the conversation so far, or its latest messages, adds its new messages; another event adds
    its question and answer.

    Args:
        events: At least one, in order of arrival; duplicates are ignored.
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
