# ruff: noqa: RUF001 - the test data has lookalike dashes and brackets
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.text.citations import cited_pages, page_key, page_number, tagged_claims, untagged_segments
from judge.text.tags import MAX_ANSWER_PAGES, MAX_PAGE, MAX_RANGE_PAGES

PIECES = st.lists(
    st.sampled_from(
        ["[Page 1]", "[Pages 2-4]", "[Page-7, Page-9]", "[page", "]", "Evidence: ", " and ", ", ", "\n", " ",
            ".",
         "A claim", "- b", "1. c", "(", ")", "【Page 3】", "[Pages 9-1]", "[Page 99999999999]", "é", "\r\n",
         "**"]
    ),
    max_size=20,
).map("".join)  # fmt: skip


def _tagged(answer: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(claim.text, claim.pages) for claim in tagged_claims(answer)]


def _untagged(answer: str) -> list[str]:
    return [segment.text for segment in untagged_segments(answer)]


@pytest.mark.parametrize(
    ("tag", "pages"),
    [
        ("[Page 7]", (7,)),
        ("[Page-7]", (7,)),
        ("[page 7]", (7,)),
        ("[PAGE-7]", (7,)),
        ("[ Page  7 ]", (7,)),
        ("[Page7]", (7,)),
        ("[Page 007]", (7,)),
        ("[Page #7]", (7,)),
        ("[Page: 7]", (7,)),
        ("Evidence: [Page 7]", (7,)),
        ("evidence [Page 7]", (7,)),
        ("(Evidence: [Page 7])", (7,)),
        ("**Evidence:** [Page 7]", (7,)),
        ("Evidence: [Page 7].", (7,)),
        ("[Page 2] [Page 3]", (2, 3)),
        ("[Page 2][Page 3]", (2, 3)),
        ("[Page 2], [Page 3]", (2, 3)),
        ("[Page 2] and [Page 3]", (2, 3)),
        ("Evidence: [Page 2] Evidence: [Page 3]", (2, 3)),
        ("[Pages 2, 3]", (2, 3)),
        ("[Pages 2,3,5]", (2, 3, 5)),
        ("[Pages 2 and 3]", (2, 3)),
        ("[Pages 2, 3, and 5]", (2, 3, 5)),
        ("[Pages 2 & 3]", (2, 3)),
        ("[Page 2, Page 3]", (2, 3)),
        ("[Page-2; Page-3]", (2, 3)),
        ("[Pages 2-4]", (2, 3, 4)),
        ("[Pages 2–4]", (2, 3, 4)),
        ("[Pages 2 — 4]", (2, 3, 4)),
        ("[Pages 2 to 4]", (2, 3, 4)),
        ("[Page 2-Page 4]", (2, 3, 4)),
        ("[Page‑2]", (2,)),
        ("[Pages 1, 4-6, 9]", (1, 4, 5, 6, 9)),
        ("[Pages 4-2]", (2, 3, 4)),
        ("[Page 3] [Page 2] [Page 3]", (3, 2)),
        ("［Page 7］", (7,)),
        ("【Page 7】", (7,)),
        ("［Ｐａｇｅｓ ２－４］", (2, 3, 4)),
        ("[Page 12 of 40]", (12,)),
        ("[Page 7, Table 2]", (7,)),
        ("[[Page 7]]", (7,)),
    ],
)
def test_the_forms_people_write(tag: str, pages: tuple[int, ...]) -> None:
    """Each form of a page tag is read as its pages and removed from the claim."""
    assert _tagged(f"The tower is tall. {tag}") == [("The tower is tall.", pages)]
    assert _untagged(f"The tower is tall. {tag}") == []


@pytest.mark.parametrize(
    "text", ["[Page]", "[Page one]", "[pageant 3]", "(Page 7a)", "[Page 7a]", "(page 7 of the novel)",
        "[2019]", "(7)", "[Page 7", "Page 7]"]
)  # fmt: skip
def test_other_brackets_are_text(text: str) -> None:
    assert _tagged(f"The tower is tall. {text}") == []
    assert len(_untagged(f"The tower is tall. {text}")) == 1


@pytest.mark.parametrize(
    ("answer", "tagged", "untagged"),
    [
        # Several claims on a line.
        ("A is b. [Page 1] C is d. [Page 2]", [("A is b.", (1,)), ("C is d.", (2,))], []),
        ("A is b [Page 1], and c is d [Page 2].", [("A is b", (1,)), ("and c is d", (2,))], []),
        # A line with only a tag belongs to the previous line of text, even across blank lines.
        ("A is b.\nEvidence: [Page 1]", [("A is b.", (1,))], []),
        ("A is b.\r\n\r\n  [Page 1]\r\nC.", [("A is b.", (1,))], ["C."]),
        ("A is b. [Page 1]\n[Page 2]\n[Page 3]", [("A is b.", (1, 2, 3))], []),
        # A tag without text before it.
        ("[Page 1]\nA is b.", [], ["A is b."]),
        ("[Page 1] A is b.\n[Page 2] C is d.", [("A is b.", (1,)), ("C is d.", (2,))], []),
        ("A is b.\n[Page 1] C is d. [Page 2]", [("A is b.", (1,)), ("C is d.", (2,))], []),
        # Each line without a tag is a segment.
        ("Here is what I found:\n- A is b. [Page 1]\nI hope this helps.", [("A is b.", (1,))],
         ["Here is what I found:", "I hope this helps."]),
        ("A is b. [Page 1] And more", [("A is b.", (1,))], ["And more"]),
        # A claim excludes list marks but includes a leading number.
        ("1. A is b. [Page 1]\n* C. [Page 2]\n1889 was it. [Page 3]",
         [("A is b.", (1,)), ("C.", (2,)), ("1889 was it.", (3,))], []),
        # Words like "evidence" are removed only as the lead-in of a tag.
        ("It has many sources [Page 1]", [("It has many sources", (1,))], []),
        ("There is no evidence [Page 1]\nEvidence [Page 2]", [("There is no evidence", (1, 2))], []),
        ("", [], []),
        (" \n***\n[]", [], []),
    ],
)  # fmt: skip
def test_a_tag_ends_the_claim_before_it(
    answer: str, tagged: list[tuple[str, tuple[int, ...]]], untagged: list[str]
) -> None:
    assert _tagged(answer) == tagged
    assert _untagged(answer) == untagged


def test_cited_pages_are_named_once_in_order_of_mention() -> None:
    assert cited_pages("A [Page 9]. B [Pages 2-3]\nC [Page 9] [Page 1]\n[Page 4]") == (9, 2, 3, 1, 4)


def test_a_tag_without_any_claim_cites_nothing() -> None:
    assert cited_pages("Evidence: [Page 1]") == ()


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
    """Ranges are cut to their first pages; huge numbers become MAX_PAGE."""
    (claim,) = tagged_claims(f"A. {tag}")
    assert (claim.pages[0], len(claim.pages)) == (first, count)


def test_all_ranges_of_an_answer_are_bounded_together() -> None:
    """Above the limit of an answer each range counts as its first page."""
    claims = tagged_claims("\n".join(f"A. [Pages {n}-{n + 998}]" for n in range(1000)))
    assert len(claims) == 1000
    assert sum(len(claim.pages) for claim in claims) <= MAX_ANSWER_PAGES + 1000
    assert claims[-1].pages == (999,)


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 100_000,
        "[Page 1" * 20_000,
        "x [Page 1" + ",1" * 100_000 + "]",
        "x" + "".join(f"[Page {n}]" for n in range(20_000)),
        "x" + "".join(f"[Page {n}]\n" for n in range(20_000)),
        "[Page 1]" + " and" * 30_000 + "x [Page 2]",
        "evidence " * 20_000 + "[Page 1]",
        " " * 100_000 + "[Page 1]",
    ],
)
def test_hostile_repetition_is_dealt_with(answer: str) -> None:
    """Long repetitions finish within the suite's time limit."""
    tagged_claims(answer)


@given(PIECES | st.text())
def test_every_claim_has_its_offsets(answer: str) -> None:
    """Claims are ordered, disjoint, verbatim and never blank; only tagged ones have pages."""
    tagged, untagged = tagged_claims(answer), untagged_segments(answer)
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


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("Page-7", 7),
        ("page 7", 7),
        ("PAGE_07", 7),
        ("p. 7", 7),
        ("[Page 7]", 7),
        ("7", 7),
        ("Page-0", 0),
        ("Pages", None),
        ("", None),
        ("Page-7b", None),
        ("Chapter 7", None),
        ("Page-" + "1" * 50, None),
        ("Page-" + "1" * 10_000, None),
    ],
)
def test_page_names_are_read_leniently(key: str, number: int | None) -> None:
    """Common spellings of a page name give its number."""
    assert page_number(key) == number


@given(st.integers(0, MAX_PAGE - 1))
def test_the_canonical_name_is_read_back(page: int) -> None:
    """`page_key` and `page_number` are inverse."""
    assert page_number(page_key(page)) == page
