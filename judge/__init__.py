"""Judging of single answers, independent of Kafka, Faust and Prometheus.

Use `from judge import Judge` and `await Judge().score(event, "coverage")`, or `BlockingJudge` in programs
without an event loop. See `judge.library`.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge.endpoints.options import Patience as Patience
    from judge.endpoints.pool import JudgingOptions as JudgingOptions
    from judge.errors import InvalidEventError as InvalidEventError
    from judge.errors import JudgeConfigurationError as JudgeConfigurationError
    from judge.errors import JudgeError as JudgeError
    from judge.errors import JudgeUnavailableError as JudgeUnavailableError
    from judge.errors import PromptPackError as PromptPackError
    from judge.evaluate.cache import FileCache as FileCache
    from judge.evaluate.cache import MemoryCache as MemoryCache
    from judge.evaluate.guard import TextLimits as TextLimits
    from judge.evaluate.prices import ModelPrice as ModelPrice
    from judge.evaluate.prices import PriceTable as PriceTable
    from judge.library import BlockingJudge as BlockingJudge
    from judge.library import Judge as Judge
    from judge.metrics.code import EmbeddingSimilarity as EmbeddingSimilarity
    from judge.metrics.code import Score as Score
    from judge.metrics.code import python_metric as python_metric
    from schemas import Correction as Correction
    from schemas import Evaluator as Evaluator
    from schemas import Failed as Failed
    from schemas import JudgeCall as JudgeCall
    from schemas import QAEvent as QAEvent
    from schemas import Scored as Scored
    from schemas import Suspicion as Suspicion
    from schemas import Unscored as Unscored
    from schemas import Usage as Usage
    from schemas import Vote as Vote

_found = find_spec("schemas")
_here = Path(__file__).parent.parent
if _found is None or _found.origin is None or Path(_found.origin).parent.parent != _here:
    raise ImportError(
        f"judgestream's package `schemas` is in {_here}, but Python found {_found and _found.origin} first: "
        "rename that one, or start the program from another folder"
    )

_PARTS = {
    "judge.endpoints.options": "Patience",
    "judge.endpoints.pool": "JudgingOptions",
    "judge.errors": (
        "InvalidEventError JudgeConfigurationError JudgeError JudgeUnavailableError PromptPackError"
    ),
    "judge.evaluate.cache": "FileCache MemoryCache",
    "judge.evaluate.guard": "TextLimits",
    "judge.evaluate.prices": "ModelPrice PriceTable",
    "judge.library": "BlockingJudge Judge",
    "judge.metrics.code": "EmbeddingSimilarity Score python_metric",
    "schemas": ("Correction Evaluator Failed JudgeCall QAEvent Scored Suspicion Unscored Usage Vote"),
}
_HOMES = {name: module for module, names in _PARTS.items() for name in names.split()}
__all__ = tuple(sorted(_HOMES))


def __getattr__(name: str) -> object:
    """Import a part of the library on first use, so that pure modules of this package load nothing else."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
