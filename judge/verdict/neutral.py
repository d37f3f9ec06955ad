"""The neutral event, which any judge can judge: it tells an endpoint's failure from an event's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from judge.metric import Metric
from judge.task import unsampled_task, with_named_texts
from schemas import ChatMessage, JudgeTask, QAEvent, ToolCall

NEUTRAL_EVENT: Final = QAEvent(
    event_id="judgestream-neutral",
    question="Where is the Eiffel Tower, and since when?",
    answer=(
        "The Eiffel Tower stands in Paris. Evidence: [Page 1]\nIt was completed in 1889. Evidence: [Page 2]"
    ),
    reference="The Eiffel Tower is in Paris. It was completed in 1889.",
    context={
        "Page-1": "The Eiffel Tower stands on the Champ de Mars in Paris.",
        "Page-2": "The Eiffel Tower was completed in March 1889.",
    },
    messages=(
        ChatMessage(role="user", content="Where is the Eiffel Tower, and since when?"),
        ChatMessage(role="assistant", content="The Eiffel Tower stands in Paris. It was completed in 1889."),
    ),
    tool_calls=(ToolCall(name="search", arguments='{"query": "Eiffel Tower"}', result="Paris, 1889"),),
    other_answer="The Eiffel Tower has stood in Paris since 1889.",
)
"""Short, harmless, with every text that a metric may use."""


def neutral_task(metric: Metric, *, now: datetime) -> JudgeTask:
    """Build a metric's task from the neutral event; its result is not published."""
    task = unsampled_task(NEUTRAL_EVENT, metric, source=NEUTRAL_EVENT.event_id, now=now.astimezone(UTC))
    return with_named_texts(task, "The Eiffel Tower is in Paris.")
