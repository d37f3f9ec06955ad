"""Names of people, found by the optional Presidio engine (extra `presidio`) with a spaCy model.

The model takes half a gigabyte of memory and tens of milliseconds per page, so it is loaded only if `names`
is set.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from judge.errors import JudgeConfigurationError
from judge.evaluate.limited import keep_loaded
from judge.text.redaction import Kind, Redactor

MODEL: Final = "en_core_web_lg"
MAX_CHARS: Final = 10_000
"""Longer texts are processed in parts of this size; the model needs about 100 MB for each."""
_INSTALL: Final = (
    f'install it with pip install "judgestream[presidio]" and python -m spacy download {MODEL}, '
    "or remove names"
)


def redactor(kinds: Iterable[Kind]) -> Redactor:
    """Return a redactor; for `names` the engine is loaded here and in the child process.

    Raises:
        JudgeConfigurationError: `names` is among the kinds, and the engine cannot be loaded.
    """
    kinds = tuple(kinds)
    if "names" not in kinds:
        return Redactor(kinds)
    load()
    keep_loaded(load)
    return Redactor(kinds, find_names=find)


def load(model: str = MODEL) -> None:
    """Load the engine once. It is never downloaded.

    Args:
        model: The language model: the name of an installed package, or a folder.

    Raises:
        JudgeConfigurationError: The engine, or its language model, is not installed or cannot be loaded.
    """
    _engine(model)


def find(text: str, *, model: str = MODEL) -> Iterator[tuple[int, int]]:
    """Yield the spans of people's names.

    Args:
        text: The text.
        model: The language model; see `load`.

    Raises:
        JudgeConfigurationError: As `load`.
    """
    engine = _engine(model)
    end = 0
    for begin, part in _parts(text):
        found = engine.analyze(part, language="en", entities=["PERSON"])
        for one in sorted(found, key=lambda one: (one.start, -one.end)):
            start, stop = begin + one.start, begin + one.end
            if start >= end:
                yield start, stop
                end = stop


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield parts of a bounded length, split at lines, sentences or words if possible."""
    begin = 0
    while begin < len(text):
        end = begin + MAX_CHARS
        if end < len(text):
            last = max(text.rfind("\n", begin, end), text.rfind(". ", begin, end))
            end = next((place + 1 for place in (last, text.rfind(" ", begin, end)) if place > begin), end)
        yield begin, text[begin:end]
        begin = end


@cache
def _engine(model: str) -> Any:
    if importlib.util.find_spec("presidio_analyzer") is None:
        raise JudgeConfigurationError(
            f"judge.redact: names needs Presidio, which is not installed; {_INSTALL}"
        )
    # Heavy optional dependencies.
    import spacy  # noqa: PLC0415
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry  # noqa: PLC0415
    from presidio_analyzer.nlp_engine import SpacyNlpEngine  # noqa: PLC0415

    # Presidio would download a missing model (half a gigabyte) at worker start.
    if not (spacy.util.is_package(model) or Path(model).is_dir()):
        raise JudgeConfigurationError(
            f"judge.redact: names needs the language model {model}, which is not installed; {_INSTALL}"
        )
    try:
        engine = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": model}])
        engine.load()
        # Only names: the default registry would also build recognizers for many countries' accounts, with
        # warnings.
        registry = RecognizerRegistry(supported_languages=["en"])
        registry.add_nlp_recognizer(engine)
        return AnalyzerEngine(registry=registry, nlp_engine=engine)
    except (ImportError, OSError, ValueError) as error:
        raise JudgeConfigurationError(
            f"judge.redact: names cannot load the language model {model} ({error}); {_INSTALL}"
        ) from error
