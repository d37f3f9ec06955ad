"""Pairs of sentences that contradict one another, or only seem to."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from judge.text.passages import Contradiction, TextPart, contradiction_between, passage

PAIRS: dict[str, list[list[Any]]] = yaml.safe_load((Path(__file__).parent / "pairs.yaml").read_text("utf-8"))


def part(words: str, sentences: str) -> TextPart:
    return passage(words), passage(sentences)


def contradiction(stated: str, source: str) -> Contradiction | None:
    return contradiction_between(part(source, source), part(stated, stated))


@pytest.mark.parametrize(("language", "one", "other", "kind"), PAIRS["differ"])
def test_contradictions_are_found_in_both_directions(language: str, one: str, other: str, kind: str) -> None:
    for stated, source in ((one, other), (other, one)):
        assert contradiction(stated, stated) is None
        found = contradiction(stated, source)
        assert found is not None, language
        assert (found.kind, found.stated, found.source) == (kind, stated, source)


@pytest.mark.parametrize(("language", "one", "other"), PAIRS["same"])
def test_similar_statements_are_no_contradiction(language: str, one: str, other: str) -> None:
    assert {contradiction(*pair) for pair in itertools.product((one, other), repeat=2)} == {None}, language


@given(st.text(max_size=80), st.text(max_size=80))
def test_nothing_breaks_it(one: str, other: str) -> None:
    contradiction(one, other)
    assert contradiction(one, one) is None
    contradiction_between(part(one, one + other), part(other, other + one))


@given(st.integers(0, 10**12), st.sampled_from(["mg", "km", "people", "%", "euros", ""]))
def test_a_number_written_in_another_way_is_the_same(number: int, unit: str) -> None:
    arabic = str(number).translate({48 + digit: 0x660 + digit for digit in range(10)})
    grouped = f"{number:,}"
    for written in (grouped, grouped.replace(",", "\u202f"), arabic):
        assert contradiction(f"The sum is {written} {unit} now.", f"The sum is {number} {unit} now.") is None
