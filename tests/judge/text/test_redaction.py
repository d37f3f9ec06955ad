"""Redaction of texts that the rules were tuned on and of texts of others, and of any text at all."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from judge.text.normal import neutralize
from judge.text.redaction import KINDS, Kind, Redactor

REDACTOR = Redactor(KINDS)
MOST_MISSED, MOST_MISTAKEN = 3, 3


def corpus(name: str) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = yaml.safe_load(
        (Path(__file__).parent / f"redaction_{name}.yaml").read_text("utf-8")
    )
    return texts


def _hidden(text: str) -> str:
    middle = len(text) // 2
    return f"{text[:middle]}\u200b{text[middle:]}"


def _wide(text: str) -> str:
    """As Japanese input methods write them."""
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def _unbroken(text: str) -> str:
    return text.replace(" ", "\u00a0").replace("-", "\u2011")


DISGUISES = (str, str, _hidden, _unbroken, str, _wide)
TUNED = corpus("tuned")
CARRIERS, NEGATIVE_FORMS = TUNED.pop("carriers"), TUNED.pop("none")


def positives() -> Iterator[tuple[str, str, str]]:
    forms = [(kind, form) for kind, forms in TUNED.items() for form in forms]
    for place, ((kind, form), carrier) in enumerate(
        zip(itertools.cycle(forms), itertools.cycle(CARRIERS), strict=False)
    ):
        disguise = DISGUISES[place // len(forms) * 2 + place % 2] if place < 3 * len(forms) else str
        # A key block is not varied: its standard allows plain lines only.
        parts = [part if "-----" in form else disguise(part) for part in form.split("~")]
        # "198.51.100.23~:8080": the data ends before the port.
        data = parts[0] if len(parts) == 1 or form.endswith("~:8080") else parts[1]
        yield kind, data, carrier.format("".join(parts))


def _core(text: str) -> str:
    return "".join(char for char in neutralize(text) if char.isalnum()).lower()


def _leaks(data: str, redacted: str) -> bool:
    """Whether half of the data, or at least six characters of it, are left."""
    wanted, left = _core(data), _core(re.sub(r"\[[a-z]+\]", "|", redacted))
    size = min(max(6, len(wanted) // 2), len(wanted))
    return any(wanted[start : start + size] in left for start in range(len(wanted) - size + 1))


def test_data_is_found_however_it_is_written() -> None:
    texts = {text: (kind, data) for kind, data, text in itertools.islice(positives(), 300)}
    assert len(texts) == 300
    assert {kind for kind, _ in texts.values()} == set(KINDS)
    missed = [(kind, text) for text, (kind, data) in texts.items() if _leaks(data, REDACTOR.redact(text))]
    assert len(missed) <= MOST_MISSED, missed


def test_texts_without_data_are_not_changed() -> None:
    pairs = zip(itertools.cycle(NEGATIVE_FORMS), itertools.cycle(CARRIERS), strict=False)
    texts = {carrier.format(form) for form, carrier in itertools.islice(pairs, 300)}
    assert len(texts) == 300
    mistaken = [text for text in texts if REDACTOR.redact(text) != neutralize(text)]
    assert len(mistaken) <= MOST_MISTAKEN, mistaken


@pytest.mark.parametrize(("name", "size", "most"), [("held_out", 481, 14), ("fresh", 90, 10)])
def test_texts_of_others_are_redacted_as_documented(name: str, size: int, most: int) -> None:
    """The shares that docs/robustness.md states hold for texts that the rules were not tuned on."""
    texts = corpus(name)
    none = texts.pop("none")
    assert [text for text in none if REDACTOR.redact(text) != neutralize(text)] == []
    assert sum(map(len, texts.values())) == size
    left = {text: REDACTOR.redact(text.replace("~", "")) for text in itertools.chain(*texts.values())}
    missed = [text for text in left if any(_leaks(data, left[text]) for data in text.split("~")[1::2])]
    assert len(missed) <= most, missed


def test_names_need_an_engine() -> None:
    with pytest.raises(ValueError, match="names needs an engine"):
        Redactor(["names"])
    named = Redactor(["names"], find_names=lambda text: iter([(0, 3)] if text.startswith("Ada") else []))
    assert named.redact("Ada wrote it.") == "[name] wrote it."


@pytest.mark.parametrize(
    ("kinds", "text"),
    [([], "a@example.com"), (KINDS, "It is 330 m tall. Evidence: [Page 7] [Pages 2-4]")],
    ids=["no kind", "page tags"],
)
def test_what_stays(kinds: Sequence[Kind], text: str) -> None:
    assert Redactor(kinds).redact(text) == text


PIECES = st.sampled_from(
    ["a@example.com", "4111 1111 1111 1111", "+44 20 7946 0958", "192.168.0.1", "::1", "password: abcdefgh",
        " ", "\n", ".",
     "-", "1", "x", ":", "@", "[", "]", "AKIAIOSFODNN7EXAMPLE", "-----BEGIN PRIVATE KEY-----"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map(" ".join))
def test_redaction_is_idempotent(text: str) -> None:
    """Tasks are redacted when built and when judged."""
    once = REDACTOR.redact(text)
    assert REDACTOR.redact(once) == once


@given(st.text() | st.lists(PIECES, max_size=30).map("".join))
def test_no_text_breaks_anything(text: str) -> None:
    assert " a@example.com " not in REDACTOR.redact(text)
