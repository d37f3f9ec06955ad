"""The optional engine for names. With the extra `presidio` the real engine runs on a model of two rules."""

from __future__ import annotations

import importlib.util
import os
from functools import partial
from pathlib import Path

import pytest

from judge.errors import JudgeConfigurationError
from judge.evaluate import guard, limited
from judge.text.redaction import Redactor

NEEDS_ENGINE = pytest.mark.skipif(
    importlib.util.find_spec("presidio_analyzer") is None, reason="the extra presidio is not installed"
)
MIB = 1024 * 1024


@pytest.fixture
def model(tmp_path: Path) -> str:
    spacy = pytest.importorskip("spacy", reason="the extra presidio is not installed")
    language = spacy.blank("en")
    patterns = [{"label": "PERSON", "pattern": name} for name in ("Ada Lovelace", "Grace Hopper")]
    language.add_pipe("entity_ruler").add_patterns(patterns)
    language.to_disk(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.mark.skipif(importlib.util.find_spec("presidio_analyzer") is not None, reason="presidio is installed")
def test_without_the_engine_it_is_an_error_that_says_how_to_get_it() -> None:
    with pytest.raises(
        JudgeConfigurationError, match=r"pip install \"judgestream\[presidio\]\" and python -m spacy"
    ):
        guard.redactor(["names"])


@NEEDS_ENGINE
def test_names_are_replaced_as_they_are_written(model: str) -> None:
    """Names are replaced after the other kinds, also across the parts of a long text."""
    redactor = Redactor(["names", "emails"], find_names=partial(guard.find_names, model=model))
    assert redactor.redact("Ada Lovelace (a@example.com) met Grace Hopper.") == "[name] ([email]) met [name]."
    text = "Ada Lovelace \u00e9crivit. " * 1_500  # 36,000 characters, four parts
    assert redactor.redact(text) == "[name] \u00e9crivit. " * 1_500


@NEEDS_ENGINE
def test_a_model_that_is_missing_is_not_downloaded() -> None:
    with pytest.raises(JudgeConfigurationError, match="needs the language model no_such_model, which is not"):
        guard.load_names("no_such_model")


def _hold(size: int) -> int:
    return len(bytearray(size))


_held: list[bytes] = []


def _load() -> None:
    _held.append(bytes(240 * MIB))


async def test_memory_of_a_loaded_model_is_not_counted() -> None:
    child = limited.Child("test", limited.MEMORY_BYTES, first=_load, counts_first=False)
    try:
        first = await child.call(20, os.getpid)
        assert await child.call(20, _hold, 20 * MIB) == 20 * MIB
        assert await child.call(20, os.getpid) == first
        with pytest.raises(limited.LimitError, match="more than 160 MiB"):
            await child.call(20, _hold, 2 * limited.MEMORY_BYTES)
    finally:
        child.close()
