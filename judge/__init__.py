"""Judging of single answers, independent of Kafka, Faust and Prometheus.

Use `from judge import Judge` and `await Judge().score(event, "coverage")`, or `BlockingJudge` in programs
without an event loop. See `judge.library`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge.blocking import BlockingJudge
    from judge.endpoints.options import Patience
    from judge.endpoints.stack import JudgingOptions
    from judge.errors import (
        InvalidEventError,
        JudgeConfigurationError,
        JudgeError,
        JudgeUnavailableError,
        PromptPackError,
    )
    from judge.library import Judge
    from judge.metrics.code.metric import python_metric
    from judge.metrics.code.scale import Score
    from judge.metrics.embeddings import EmbeddingSimilarity
    from judge.verdict.cache import MemoryCache
    from judge.verdict.cache_file import FileCache
    from judge.verdict.guarded_metric import TextLimits
    from judge.verdict.pricing import ModelPrice, PriceTable
    from schemas import (
        Correction,
        Evaluator,
        Failed,
        JudgeCall,
        QAEvent,
        Scored,
        Suspicion,
        Unscored,
        Usage,
        Vote,
    )

_HOMES = {
    "BlockingJudge": "judge.blocking",
    "Correction": "schemas",
    "EmbeddingSimilarity": "judge.metrics.embeddings",
    "Evaluator": "schemas",
    "Failed": "schemas",
    "FileCache": "judge.verdict.cache_file",
    "InvalidEventError": "judge.errors",
    "Judge": "judge.library",
    "JudgeCall": "schemas",
    "JudgeConfigurationError": "judge.errors",
    "JudgeError": "judge.errors",
    "JudgeUnavailableError": "judge.errors",
    "JudgingOptions": "judge.endpoints.stack",
    "MemoryCache": "judge.verdict.cache",
    "ModelPrice": "judge.verdict.pricing",
    "Patience": "judge.endpoints.options",
    "PriceTable": "judge.verdict.pricing",
    "PromptPackError": "judge.errors",
    "QAEvent": "schemas",
    "Score": "judge.metrics.code.scale",
    "Scored": "schemas",
    "Suspicion": "schemas",
    "TextLimits": "judge.verdict.guarded_metric",
    "Unscored": "schemas",
    "Usage": "schemas",
    "Vote": "schemas",
    "python_metric": "judge.metrics.code.metric",
}

__all__ = [
    "BlockingJudge",
    "Correction",
    "EmbeddingSimilarity",
    "Evaluator",
    "Failed",
    "FileCache",
    "InvalidEventError",
    "Judge",
    "JudgeCall",
    "JudgeConfigurationError",
    "JudgeError",
    "JudgeUnavailableError",
    "JudgingOptions",
    "MemoryCache",
    "ModelPrice",
    "Patience",
    "PriceTable",
    "PromptPackError",
    "QAEvent",
    "Score",
    "Scored",
    "Suspicion",
    "TextLimits",
    "Unscored",
    "Usage",
    "Vote",
    "python_metric",
]


def __getattr__(name: str) -> object:
    """Import a part of the library on first use, so that pure modules of this package load nothing else."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
