"""Properties of texts, and what no line of `cases.jsonl` shows."""

# ruff: noqa: RUF001 - the alphabet contains lookalike characters
from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from judge.text.citations import page_key, page_number, read_citations
from judge.text.normal import TextIndex, is_blank, neutralize, normalise
from judge.text.printable import printable, reason_of
from judge.text.quotations import Quotable
from judge.text.tags import MAX_ANSWER_PAGES, MAX_PAGE, MAX_RANGE_PAGES, USUAL, Citing
from judge.text.words import sentences
from tests.streams.results import failed, unscored

# A small alphabet, so that random texts often combine its characters.
MESSY = st.text(
    st.sampled_from(
            "aAbé1 "
            "5.,'’\"“-–\n\t\r\x00\x85\u00a0\u00ad\u200b\u202e\u0301\u0323\ufb01½北ー서각İßΣ\ud800\udc00🙂[]"
        ),
    max_size=40,
)  # fmt: skip


@given(MESSY, MESSY, MESSY)
def test_a_span_of_a_text_is_found_at_its_place(before: str, span: str, after: str) -> None:
    # A leading accent would combine with the space before it.
    assume(not unicodedata.combining(normalise(span)[:1] or "x"))
    text = f"{before} {span} {after}"
    place = next(TextIndex(text).find_all(span), None)
    if is_blank(span):
        assert place is None
    else:
        assert place is not None
        assert normalise(text[place[0] : place[1]]) == normalise(span)


@given(MESSY | st.text())
def test_texts_that_read_alike_have_one_form(text: str) -> None:
    form = normalise(text)
    assert normalise(form) == form
    for changed in (unicodedata.normalize("NFC", text), unicodedata.normalize("NFKC", text), text.casefold()):
        # Invisible characters prevent composition, and marks of one letter keep their order.
        marks = map(unicodedata.combining, unicodedata.normalize("NFKD", text))
        if neutralize(text) == text and not any(map(all, pairwise(marks))):
            assert normalise(changed) == form


@given(MESSY | st.text())
def test_offsets_only_grow_and_stay_in_the_text(text: str) -> None:
    index = TextIndex(text)
    offsets = [index.original(position) for position in range(len(index.normal) + 1)]
    assert all(0 <= offset <= len(text) for offset in offsets)
    bases = [
        offset for offset, char in zip(offsets, index.normal, strict=False) if not unicodedata.combining(char)
    ]
    assert bases == sorted(bases)


@given(MESSY | st.text())
def test_a_neutral_text_stays_and_reads_like_the_original(text: str) -> None:
    clean = neutralize(text)
    assert neutralize(clean) == clean
    clean.encode()
    assert normalise(clean) == normalise(text)


@given(MESSY | st.text())
def test_sentences_hold_every_letter_once(text: str) -> None:
    places = sentences(text)
    assert all(start < end for start, end in places)
    assert all(one[1] <= other[0] for one, other in pairwise(places))
    inside = "".join(text[start:end] for start, end in places)
    assert [char for char in inside if char.isalnum()] == [char for char in text if char.isalnum()]


TAGS_PIECES = st.lists(
    st.sampled_from(
        ["[Page 1]", "[Pages 2-4]", "[Page-7, Page-9]", "[page", "]", "Evidence: ", " and ", ", ", "\n", " ",
            ".",
         "A claim", "- b", "1. c", "(", ")", "【Page 3】", "[Pages 9-1]", "[Page 99999999999]", "é", "\r\n",
         "**"]
    ),
    max_size=20,
).map("".join)  # fmt: skip


@pytest.mark.parametrize(
    ("tag", "first", "count"),
    [
        ("[Pages 1-999999999]", 1, MAX_RANGE_PAGES),
        ("[Pages 999999999-1]", 1, MAX_RANGE_PAGES),
        ("[Pages 5-" + "9" * 10_000 + "]", 5, MAX_RANGE_PAGES),
        ("[Page " + "9" * 100_000 + "]", MAX_PAGE, 1),
        ("[Pages 0-0]", 0, 1),
    ],
)
def test_hostile_numbers_are_bounded(tag: str, first: int, count: int) -> None:
    (claim,) = read_citations(f"A. {tag}").claims
    assert (claim.pages[0], len(claim.pages)) == (first, count)


def test_all_ranges_of_an_answer_are_bounded_together() -> None:
    claims = read_citations("\n".join(f"A. [Pages {n}-{n + 998}]" for n in range(1000))).claims
    assert len(claims) == 1000
    assert sum(len(claim.pages) for claim in claims) <= MAX_ANSWER_PAGES + 1000
    assert claims[-1].pages == (999,)


@given(TAGS_PIECES | st.text())
def test_every_claim_has_its_offsets(answer: str) -> None:
    read = read_citations(answer)
    tagged, untagged = read.claims, read.untagged
    both = sorted((*tagged, *untagged), key=lambda claim: claim.start)
    end = 0
    for claim in both:
        assert end <= claim.start < claim.end
        assert claim.text == answer[claim.start : claim.end]
        assert any(char.isalnum() for char in claim.text)
        end = claim.end
    assert all(claim.pages for claim in tagged)
    assert not any(claim.pages for claim in untagged)
    assert all(0 <= page <= MAX_PAGE for claim in tagged for page in claim.pages)


@given(st.integers(0, MAX_PAGE - 1))
def test_the_canonical_name_is_read_back(page: int) -> None:
    assert page_number(page_key(page)) == page


NAMED = Citing(names=(("doc-3", 3), ("handbook.pdf", 4), ("faq-returns", 5)))


@given(st.text(alphabet="[]()\u3010\u3011 1aP-,:^\n\u2020page.Source\ud800", max_size=60))
def test_nothing_breaks_it_in_citations(answer: str) -> None:
    for citing in (USUAL, NAMED, Citing(pattern=r"a(\d)")):
        read = read_citations(answer, citing)
        for claim in (*read.claims, *read.untagged):
            assert answer[claim.start : claim.end] == claim.text
        assert len(read.text) == len(answer)


def test_a_pattern_of_any_shape_reads_in_linear_time() -> None:
    citing = Citing(pattern=r"<<(?:(\d+)|(?:a+)+b)>>")
    assert read_citations(f"A is b <<7>>. C is d <<{'a' * 10_000}>>.", citing).pages == (7,)


QUOTATIONS_WORDS = st.lists(st.sampled_from(
    ["alpha", "beta", "gamma", "not", "12", "1,200", "**", "[", "](x)", "...", "\u2026", "&amp;", "-\n", "\n",
        "- ", "1. ", "|", "\u6771", "\u00e9", "[1]", "<b>", "'"]
), max_size=25).map(" ".join)  # fmt: skip


@given(QUOTATIONS_WORDS | st.text(max_size=60), QUOTATIONS_WORDS | st.text(max_size=60))
def test_nothing_breaks_it_in_quotations(text: str, quotation: str) -> None:
    for found in Quotable(text).find_all(quotation):
        assert 0 <= found.start < found.end <= len(text)
        assert found.kind == "joined" or found.words == text[found.start : found.end]


NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


@given(st.lists(st.sampled_from(NAMES), min_size=8, max_size=40), st.data())
def test_one_slip_in_a_long_quotation_is_forgiven(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.sampled_from(["", "x"])) + text[place + 1 :]
    assert Quotable(f"Before it. {text}. And after it.").find(changed) is not None


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_is_always_one_printable_line_within_its_limit(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    shown.encode()  # raises on a lone surrogate


def test_other_results_say_their_reason() -> None:
    assert reason_of(unscored(1)) == "no_claims"
    assert reason_of(failed(1)) == "content_refused: the filter said no"
