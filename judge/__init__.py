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
    from judge.evaluate.cache import FileCache, MemoryCache
    from judge.evaluate.guard import TextLimits
    from judge.evaluate.prices import ModelPrice, PriceTable
    from judge.library import Judge
    from judge.metrics.code import EmbeddingSimilarity
    from judge.metrics.function import Score, python_metric
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
    "EmbeddingSimilarity": "judge.metrics.code",
    "Evaluator": "schemas",
    "Failed": "schemas",
    "FileCache": "judge.evaluate.cache",
    "InvalidEventError": "judge.errors",
    "Judge": "judge.library",
    "JudgeCall": "schemas",
    "JudgeConfigurationError": "judge.errors",
    "JudgeError": "judge.errors",
    "JudgeUnavailableError": "judge.errors",
    "JudgingOptions": "judge.endpoints.stack",
    "MemoryCache": "judge.evaluate.cache",
    "ModelPrice": "judge.evaluate.prices",
    "Patience": "judge.endpoints.options",
    "PriceTable": "judge.evaluate.prices",
    "PromptPackError": "judge.errors",
    "QAEvent": "schemas",
    "Score": "judge.metrics.function",
    "Scored": "schemas",
    "Suspicion": "schemas",
    "TextLimits": "judge.evaluate.guard",
    "Unscored": "schemas",
    "Usage": "schemas",
    "Vote": "schemas",
    "python_metric": "judge.metrics.function",
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
