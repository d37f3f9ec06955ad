"""Names of people, by the optional engine: the extra `presidio`, with a language model of spaCy's beside it.

It understands language where the other kinds know forms, and costs accordingly: half a gigabyte of memory and
tens of milliseconds a page. So it is off unless `names` is asked for.
"""

from __future__ import annotations

import contextlib
import importlib.util
import resource
from collections.abc import Iterator
from functools import cache
from typing import Any

from judge.errors import JudgeConfigurationError

MAX_CHARS = 100_000
"""A longer text is read in parts of this many characters."""


def is_available() -> bool:
    """Whether the engine is installed."""
    return importlib.util.find_spec("presidio_analyzer") is not None


def find(text: str) -> Iterator[tuple[int, int]]:
    """Where names of people stand.

    Raises:
        JudgeConfigurationError: The engine, or its language model, is not installed.
    """
    end = 0
    for begin in range(0, len(text), MAX_CHARS):
        part = text[begin : begin + MAX_CHARS]
        for found in sorted(
            _engine().analyze(part, language="en", entities=["PERSON"]), key=lambda one: one.start
        ):
            start, stop = begin + found.start, begin + found.end
            if start >= end:
                yield start, stop
                end = stop


@cache
def _engine() -> Any:
    # A child that reads long texts is bounded to less than a language model takes.
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    try:
        from presidio_analyzer import AnalyzerEngine  # noqa: PLC0415 - heavy, and installed on request

        return AnalyzerEngine()
    except (ImportError, OSError, SystemExit) as error:
        raise JudgeConfigurationError(
            f"judge.redact: names needs the extra presidio and a language model of spaCy's ({error}); "
            "install "
            "judgestream[presidio] and en_core_web_lg, or remove names"
        ) from error
