"""The table of Logfire's own instrumentations of model clients."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

LOGFIRE: Final = Family(
    name="logfire",
    version="4",
    scopes=("logfire",),
    heard=("events", "gen_ai.input.messages", "request_data"),
    gave=("response_data",),
)
