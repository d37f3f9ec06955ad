"""A whole conversation as one event. Pure, and linear in what its events hold."""

from __future__ import annotations

from collections.abc import Sequence

from schemas import ChatMessage, QAEvent
from schemas.event import MAX_MESSAGES


def joined(events: Sequence[QAEvent]) -> QAEvent:
    """One event of all events of a conversation.

    Its id is the conversation's; its `messages` are all turns, the latest 200; all else is the last event's.
    An event that carries the conversation so far, or its latest messages, adds what is new in it; another its
    question and answer.

    Args:
        events: At least one, in the order in which they came; one that came twice counts once.
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
    """The turns that an event carries; its answer is among them, whether its messages have it or not."""
    answer = ChatMessage(role="assistant", content=event.answer)
    if not event.messages:
        return [ChatMessage(role="user", content=event.question), answer]
    return [*event.messages] if event.messages[-1].role == "assistant" else [*event.messages, answer]


def _repeated(turns: Sequence[ChatMessage], said: Sequence[ChatMessage]) -> int:
    """Count an event's first messages that are the last turns before it (Knuth, Morris, Pratt)."""
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
