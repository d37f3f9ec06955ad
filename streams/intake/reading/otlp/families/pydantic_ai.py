"""The table of Pydantic AI."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

PYDANTIC_AI: Final = Family(
    name="pydantic-ai",
    version="1-5",
    marks=("pydantic_ai", "final_result", "all_messages_events", "model_request_parameters"),
    scopes=("pydantic-ai",),
    given=("prompt",),
    gave=("final_result",),
    heard=("pydantic_ai.all_messages", "all_messages_events", "events"),
    tool_arguments=("tool_arguments",),
    tool_result=("tool_response",),
    model=("model_name",),
    labels={"agent_name": "agent"},
    capture="set InstrumentationSettings(include_content=True), which is the default",
)
