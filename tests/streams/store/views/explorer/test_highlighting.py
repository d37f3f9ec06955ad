"""Evidence is located in the texts without losing a character."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.store.views.explorer.highlighting import Item, Span, items_of, pieces


def _item(number: int, *spans: tuple[str, int, int]) -> Item:
    return Item(
        number=number, kind="claim", upheld=True, text="", why="", spans=tuple(Span(*one) for one in spans)
    )


def test_a_text_is_cut_where_items_begin_and_end() -> None:
    """Items may overlap: "bc" is 1, "cd" is 2, so "c" has both."""
    items = [_item(1, ("answer", 1, 3)), _item(2, ("answer", 2, 4)), _item(3, ("reference", 0, 5))]
    assert pieces("abcde", "answer", items) == [("a", []), ("b", [1]), ("c", [1, 2]), ("d", [2]), ("e", [])]
    assert pieces("", "answer", items) == []


_SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


@given(st.text(max_size=30), _SPANS)
def test_pieces_are_the_text(text: str, spans: list[tuple[int, int]]) -> None:
    """The pieces concatenate to the text, and each character has exactly the items that span it."""
    items = [
        _item(number, ("answer", start, end)) for number, (start, end) in enumerate(spans, 1) if start < end
    ]
    found = pieces(text, "answer", items)
    assert "".join(part for part, _ in found) == text
    marked = [numbers for part, numbers in found for _ in part]
    for place, numbers in enumerate(marked):
        assert numbers == [one.number for one in items if one.spans[0].start <= place < one.spans[0].end]


def test_claims_and_facts_are_read() -> None:
    """A claim is upheld if it is supported and relevant; its page is found by number."""
    claim = {
        "claim_span": "x", "claim_start": 0, "claim_end": 4, "pages": [7], "supported": True,
        "relevant": True, "page": 7,
        "page_start": 3, "page_end": 9, "justification": "says so",
    }  # fmt: skip
    [item] = items_of({"claims": [claim]}, ["page 7"])
    assert (item.kind, item.upheld, item.why) == ("claim", True, "says so")
    assert item.spans == (Span("answer", 0, 4), Span("page 7", 3, 9))
    assert not items_of({"claims": [claim | {"relevant": False}]})[0].upheld
    fact = {"item": "f", "reference_start": 1, "reference_end": 2, "matched": False, "answer_span": None}
    [one] = items_of({"facts": [fact], "conclusions": [], "terms": []})
    assert (one.kind, one.upheld, one.spans) == ("fact", False, (Span("reference", 1, 2),))


@pytest.mark.parametrize(
    "evidence",
    [
        None,
        3,
        [],
        "x",
        {"claims": "x"},
        {"claims": [3, None]},
        {"facts": [{"reference_start": -1, "reference_end": "9"}]},
    ],
)
def test_evidence_of_another_form_shows_nothing_and_breaks_nothing(evidence: Any) -> None:
    """Evidence of another form, as prompt packs have, gives no spans."""
    for item in items_of(evidence):
        assert item.spans == ()
