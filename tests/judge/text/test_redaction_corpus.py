from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from judge.text.normal import neutralize
from judge.text.redaction import KINDS, Redactor
from tests.judge.text.redaction_corpus import NEGATIVES, POSITIVES

REDACTOR = Redactor(KINDS)
MOST_MISSED, MOST_MISTAKEN = 3, 3


def _core(text: str) -> str:
    return "".join(char for char in neutralize(text) if char.isalnum()).lower()


def _leaks(data: str, redacted: str) -> bool:
    """Whether half of the data, or at least six characters of it, are left."""
    wanted, left = _core(data), _core(re.sub(r"\[[a-z]+\]", "|", redacted))
    size = min(max(6, len(wanted) // 2), len(wanted))
    return any(wanted[start : start + size] in left for start in range(len(wanted) - size + 1))


def test_the_corpus_has_the_documented_size() -> None:
    """The corpus has 300 different texts of each sort, with every kind of data."""
    assert len({text for _, _, text in POSITIVES}) == len(set(NEGATIVES)) == 300
    assert {kind for kind, _, _ in POSITIVES} == set(KINDS)


def test_data_is_found_however_it_is_written() -> None:
    """At most 3 of 300 texts leak data, in prose, logs, JSON, full-width forms and zero-width characters."""
    missed = [(kind, text) for kind, data, text in POSITIVES if _leaks(data, REDACTOR.redact(text))]
    assert len(missed) <= MOST_MISSED, missed


def test_texts_without_data_are_not_changed() -> None:
    mistaken = [text for text in NEGATIVES if REDACTOR.redact(text) != neutralize(text)]
    assert len(mistaken) <= MOST_MISTAKEN, mistaken


def _missed(texts: Iterable[str]) -> list[str]:
    """The texts of which a part between two `~` is left after redaction."""
    found = []
    for text in texts:
        parts = text.split("~")
        redacted = REDACTOR.redact("".join(parts))
        found += [text] if any(_leaks(data, redacted) for data in parts[1::2]) else []
    return found


@pytest.mark.parametrize(("name", "size", "most"), [("held_out", 481, 14), ("fresh", 90, 10)])
def test_texts_of_others_are_redacted_as_documented(name: str, size: int, most: int) -> None:
    """The shares that docs/robustness.md states hold for texts that the rules were not tuned on."""
    texts = yaml.safe_load((Path(__file__).parent / f"redaction_{name}.yaml").read_text("utf-8"))
    none = texts.pop("none")
    assert [text for text in none if REDACTOR.redact(text) != neutralize(text)] == []
    assert sum(map(len, texts.values())) == size
    assert len(_missed(itertools.chain(*texts.values()))) <= most


def test_names_need_an_engine() -> None:
    """The kind `names` needs an engine; with one, its spans are replaced."""
    with pytest.raises(ValueError, match="names needs an engine"):
        Redactor(["names"])
    named = Redactor(["names"], find_names=lambda text: iter([(0, 3)] if text.startswith("Ada") else []))
    assert named.redact("Ada wrote it.") == "[name] wrote it."
