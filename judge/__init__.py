"""One answer in, one verdict out. Knows nothing of Kafka, Faust or Prometheus.

`from judge import Judge` is the library: `await Judge().score(event, "coverage")`; `BlockingJudge` is its
twin for programs without an event loop. See `judge.library`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge.blocking import BlockingJudge
    from judge.errors import (
        InvalidEventError,
        JudgeConfigurationError,
        JudgeError,
        JudgeUnavailableError,
        PromptPackError,
    )
    from judge.library import Judge
    from judge.metrics.code.scale import Score
    from schemas import Failed, QAEvent, Scored, Unscored

_HOMES = {
    "BlockingJudge": "judge.blocking",
    "Failed": "schemas",
    "InvalidEventError": "judge.errors",
    "Judge": "judge.library",
    "JudgeConfigurationError": "judge.errors",
    "JudgeError": "judge.errors",
    "JudgeUnavailableError": "judge.errors",
    "PromptPackError": "judge.errors",
    "QAEvent": "schemas",
    "Score": "judge.metrics.code.scale",
    "Scored": "schemas",
    "Unscored": "schemas",
}

__all__ = [
    "BlockingJudge",
    "Failed",
    "InvalidEventError",
    "Judge",
    "JudgeConfigurationError",
    "JudgeError",
    "JudgeUnavailableError",
    "PromptPackError",
    "QAEvent",
    "Score",
    "Scored",
    "Unscored",
]


def __getattr__(name: str) -> object:
    """Import a part of the library when it is asked for: a pure module of this package costs nothing else."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
