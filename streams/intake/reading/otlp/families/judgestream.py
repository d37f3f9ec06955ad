"""The attributes that an application sets for judgestream, and the marks of judgestream's own spans."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

OWN: Final = Family(
    name="judgestream",
    version="1",
    marks=("judgestream",),
    question=("judgestream.question",),
    answer=("judgestream.answer",),
    context=("judgestream.context",),
    reference=("judgestream.reference",),
    conversation=("judgestream.conversation_id",),
    label_prefixes=("judgestream.label.",),
)

LAST_WORD: Final = "judgestream"
"""Service and scope of judgestream's own spans, which are not judged."""

RESULT_ID: Final = "judgestream.result_id"
"""Attribute of every published verdict."""
