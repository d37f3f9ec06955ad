"""The precedence of tables.

Spans often carry attributes of several families (Traceloop also writes `gen_ai.*`). All matching tables are
read in this order, and the first one with a value for a field provides it.
"""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.genkit import GENKIT
from streams.intake.reading.otlp.families.haystack import HAYSTACK
from streams.intake.reading.otlp.families.judgestream import OWN
from streams.intake.reading.otlp.families.langfuse import LANGFUSE
from streams.intake.reading.otlp.families.langsmith import LANGSMITH
from streams.intake.reading.otlp.families.logfire import LOGFIRE
from streams.intake.reading.otlp.families.mlflow import MLFLOW
from streams.intake.reading.otlp.families.openinference import OPENINFERENCE
from streams.intake.reading.otlp.families.otel_genai import OTEL
from streams.intake.reading.otlp.families.pydantic_ai import PYDANTIC_AI
from streams.intake.reading.otlp.families.traceloop import TRACELOOP
from streams.intake.reading.otlp.families.vercel_ai import VERCEL

FAMILIES: Final = (
    OWN,
    LANGFUSE,
    OPENINFERENCE,
    VERCEL,
    PYDANTIC_AI,
    TRACELOOP,
    MLFLOW,
    LANGSMITH,
    GENKIT,
    HAYSTACK,
    LOGFIRE,
    OTEL,
)
"""In order of precedence: a family that wraps another one precedes it."""
