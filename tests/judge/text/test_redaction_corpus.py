from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from judge.text.normal import neutralize
from judge.text.redaction import KINDS, Kind, Redactor
from tests.judge.text import redaction_innocent as innocent
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
    none = texts.pop("none", innocent.TEXTS)
    assert [text for text in none if REDACTOR.redact(text) != neutralize(text)] == []
    assert sum(map(len, texts.values())) == size
    assert len(_missed(itertools.chain(*texts.values()))) <= most


@pytest.mark.parametrize(
    ("kind", "text", "redacted"),
    [
        ("emails", "john\u200b@example.com", "[email]"),
        ("emails", "j\u00ado\u2060hn@exam\ufeffple.com", "[email]"),
        ("emails", "\uff4a\uff4f\uff48\uff4e\uff20example.com", "[email]"),
        ("cards", "4111\u00a01111\u202f1111\u20071111", "[card]"),
        ("cards", "\uff14\uff11\uff11\uff11\u200b1111 1111 1111", "[card]"),
        ("phones", "020\u00a07946\u00a00958", "[phone]"),
        ("phones", "1\u2011800\u2011555\u20110199", "[phone]"),
        ("ip", "192.168\u200b.0.1", "[ip]"),
        ("secrets", "AKIA\u200bIOSFODNN7EXAMPLE", "[secret]"),
        ("secrets", "redis://:pw@cache", "redis://[secret]@cache"),
        ("secrets", "redis://:p@ss@cache", "redis://[secret]@cache"),
        ("ibans", "GB82\u00a0WEST 1234 5698 7654 32", "[iban]"),
        ("ibans", "GB82.WEST.1234  5698\n7654.32", "[iban]"),
        ("phones", "+44  20 7946  0958", "[phone]"),
        ("emails", "john@example\uff61com", "[email]"),
    ],
)
def test_a_text_is_normalised_before_it_is_redacted(kind: Kind, text: str, redacted: str) -> None:
    """Invisible and lookalike characters do not hide data from redaction."""
    assert Redactor([kind]).redact(text) == redacted


def test_names_need_an_engine() -> None:
    """The kind `names` needs an engine; with one, its spans are replaced."""
    with pytest.raises(ValueError, match="names needs an engine"):
        Redactor(["names"])
    named = Redactor(["names"], find_names=lambda text: iter([(0, 3)] if text.startswith("Ada") else []))
    assert named.redact("Ada wrote it.") == "[name] wrote it."
