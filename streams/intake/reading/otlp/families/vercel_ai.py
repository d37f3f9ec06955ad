"""The table of Vercel's AI SDK."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

VERCEL: Final = Family(
    name="vercel-ai",
    version="3-7",
    marks=("ai",),
    scopes=("ai", "gen_ai"),
    kinds={
        "ai.operationId": {
            "ai.generatetext": "agent",
            "ai.streamtext": "agent",
            "ai.generateobject": "agent",
            "ai.streamobject": "agent",
            "ai.generatetext.dogenerate": "model",
            "ai.streamtext.dostream": "model",
            "ai.generateobject.dogenerate": "model",
            "ai.streamobject.dostream": "model",
            "ai.toolcall": "tool",
            "ai.embed": "embedding",
            "ai.embedmany": "embedding",
            "ai.embed.doembed": "embedding",
            "ai.embedmany.doembed": "embedding",
            "ai.rerank": "rerank",
            "ai.rerank.dorerank": "rerank",
        }
    },
    heard=("ai.prompt.messages", "ai.prompt"),
    said=("ai.response.text", "ai.result.text"),
    gave=("ai.response.object", "ai.result.object"),
    called=("ai.response.toolCalls", "ai.result.toolCalls"),
    tool_name=("ai.toolCall.name",),
    tool_arguments=("ai.toolCall.args", "ai.toolCall.input"),
    tool_result=("ai.toolCall.result", "ai.toolCall.output"),
    model=("ai.response.model", "ai.model.id"),
    conversation=("ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.conversationId"),
    labels={"ai.telemetry.functionId": "function", "ai.model.provider": "provider"},
    label_prefixes=("ai.telemetry.metadata.", "ai.settings.context."),
    capture="set experimental_telemetry (telemetry in AI SDK 7) to "
    "{isEnabled: true, recordInputs: true, recordOutputs: true}",
)
