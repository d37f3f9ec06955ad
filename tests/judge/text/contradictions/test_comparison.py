"""Pairs of sentences that contradict one another, or only seem to."""

from __future__ import annotations

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


def test_the_pairs() -> None:
    differ, same = PAIRS["differ"], PAIRS["same"]
    assert len(differ) + len(same) >= 60
    assert abs(len(differ) - len(same)) <= 10
    assert {pair[0] for pair in (*differ, *same)} == {
        "English", "German", "French", "Spanish", "Turkish", "Arabic",
    }  # fmt: skip


@pytest.mark.parametrize(("language", "one", "other", "kind"), PAIRS["differ"])
def test_contradictions_are_found_in_both_directions(language: str, one: str, other: str, kind: str) -> None:
    for stated, source in ((one, other), (other, one)):
        found = contradiction(stated, source)
        assert found is not None, language
        assert (found.kind, found.stated, found.source) == (kind, stated, source)


@pytest.mark.parametrize(("language", "one", "other"), PAIRS["same"])
def test_similar_statements_are_no_contradiction(language: str, one: str, other: str) -> None:
    assert contradiction(one, other) is None, language
    assert contradiction(other, one) is None, language


@pytest.mark.parametrize("pair", [*PAIRS["differ"], *PAIRS["same"]], ids=str)
def test_no_sentence_contradicts_itself(pair: list[str]) -> None:
    for sentence in pair[1:3]:
        assert contradiction(sentence, sentence) is None


def test_a_number_that_the_passage_has_elsewhere_is_no_contradiction() -> None:
    claim = part("Line B opened in 1995.", "Line B opened in 1995.")
    page = "Line B opened in 1990. Line B opened in 1995 after a rebuild."
    assert contradiction_between(claim, part("Line B opened in 1990.", page)) is None
    alone = part("Line B opened in 1990.", "Line B opened in 1990.")
    found = contradiction_between(claim, alone)
    assert found is not None
    assert found.kind == "dates_differ"


def test_a_negation_that_was_cut_off_counts() -> None:
    """The polarity is that of the whole sentence."""
    whole = "It is a myth that the drug is safe, it is not so."
    assert contradiction_between(
        part("the drug is safe", whole), part("The drug is not safe.", "The drug is not safe.")
    ) is None  # fmt: skip


def test_the_number_of_a_quotation_is_looked_for_in_its_sentence() -> None:
    reference = "The maximum dose is 500 mg."
    answer = "The maximum dose is 500 g."
    found = contradiction_between(part(reference, reference), part("The maximum dose is", answer))
    assert found is not None
    assert found.kind == "units_differ"


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


def test_the_same_number_in_another_unit_needs_like_words() -> None:
    found = contradiction("Patients should take 500 g a day.", "Patients should take 500 mg a day.")
    assert found is not None
    assert found.kind == "units_differ"
    assert contradiction("Boil the pasta for 5 minutes.", "The drive takes 5 hours.") is None
