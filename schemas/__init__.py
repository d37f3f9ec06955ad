"""Messages between the parts: frozen models without I/O."""

from __future__ import annotations

from schemas.alert import Alert, Estimate, Shift, Word
from schemas.anchor import Anchor
from schemas.base import Source
from schemas.dead_letter import DeadLetter, DeadLetterReason, Header
from schemas.event import ChatMessage, QAEvent, ToolCall
from schemas.findings import (
    ContradictionKind,
    CorrectionKind,
    CoverageVerdict,
    RelevanceVerdict,
    SuspicionKind,
)
from schemas.label import Label, Selection, label_id
from schemas.result import (
    RESULT,
    Correction,
    Evaluator,
    Failed,
    FailedType,
    FirstPhase,
    JudgeCall,
    Result,
    ResultKind,
    Scored,
    Suspicion,
    Times,
    Unscored,
    UnscoredReason,
    Usage,
    Vote,
)
from schemas.task import ANCHOR, BURST, JudgeTask, Sampling, is_rejudged, result_id

# fmt: off
__all__ = [
    "ANCHOR", "BURST", "RESULT", "Alert", "Anchor", "ChatMessage", "ContradictionKind", "Correction",
    "CorrectionKind", "CoverageVerdict", "DeadLetter", "DeadLetterReason", "Estimate", "Evaluator", "Failed",
    "FailedType", "FirstPhase", "Header", "JudgeCall", "JudgeTask", "Label", "QAEvent", "RelevanceVerdict",
    "Result", "ResultKind", "Sampling", "Scored", "Selection", "Shift", "Source", "Suspicion",
    "SuspicionKind", "Times", "ToolCall", "Unscored", "UnscoredReason", "Usage", "Vote", "Word",
    "is_rejudged", "label_id", "result_id",
]
