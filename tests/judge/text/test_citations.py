"""Citation forms, document names, and text that resembles a citation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.text.citations import (
    BEYOND_PAGES,
    cited_pages,
    read_sources,
    tagged_claims,
    unread_citations,
    untagged_segments,
    without_tags,
)
from judge.text.tags import USUAL, Citing, normal_name

NAMED = Citing(names=(("doc-3", 3), ("handbook.pdf", 4), ("faq-returns", 5)))


@pytest.mark.parametrize(
    ("tag", "pages"),
    [
        ("[1]", (1,)), ("[^1]", (1,)), ("[^1^]", (1,)), ("[#2]", (2,)),
        ("[1, 2]", (1, 2)), ("[1][2]", (1, 2)), ("[1-3]", (1, 2, 3)),
        ("[[1]]", (1,)),
        ("[1](https://example.org/a)", (1,)), ("<sup>1</sup>", (1,)), ("\u30107\u2020source\u3011", (7,)),
        ("\u30104:7\u2020source\u3011", (7,)), ("(Page 7)", (7,)), ("(pp. 3-5)", (3, 4, 5)),
        ("(see page 7)", (7,)), ("(see [Page 3])", (3,)),
        ("Evidence: Page 7", (7,)), ("Source: Page 2, Page 3", (2, 3)), ("**Source:** Page 2", (2,)),
        ("Evidence: [1]", (1,)),
        ("[p. 7]", (7,)), ("[Seite 7]", (7,)), ("[S. 7]", (7,)), ("Quelle: Seite 7", (7,)),
        ("(siehe Seite 7)", (7,)), ("[p\u00e1gina 7]", (7,)),
        ("(Kaynak: Sayfa 3)", (3,)), ("[\u0635\u0641\u062d\u0629 7]", (7,)),
        ("(\u0627\u0644\u0645\u0635\u062f\u0631: \u0635\u0641\u062d\u0629 7)", (7,)),
        ("[\u7b2c7\u9875]", (7,)), ("[source 3]", (3,)), ("[citation:3]", (3,)), ("[Ref 3]", (3,)),
        ("(source: doc-3)", (3,)),
        ("[doc-3]", (3,)), ("[Doc 3, handbook.pdf]", (3, 4)), ("(handbook.pdf)", (4,)),
        ("Source: handbook.pdf", (4,)),
        ("\u30104:1\u2020handbook.pdf\u3011", (4,)), ("(source: FAQ_returns)", (5,)),
    ],
)  # fmt: skip
def test_the_forms_that_are_read(tag: str, pages: tuple[int, ...]) -> None:
    """Each form is read as its pages and removed from the claim."""
    answer = f"The tower is tall. {tag}"
    assert [(claim.text, claim.pages) for claim in tagged_claims(answer, NAMED)] == [
        ("The tower is tall.", pages)
    ]
    assert untagged_segments(answer, NAMED) == ()
    assert not any(char.isalnum() for char in without_tags(answer, NAMED)[len("The tower is tall.") :])


@pytest.mark.parametrize(
    ("text", "unread"),
    [("[2019]", ("[2019]",)), ("(2019)", ()), ("[Anhang B, 3]", ("[Anhang B, 3]",)),
        ("(page 7 of the novel)", ()), ("[see appendix]", ()),
     ("(source: unknown)", ("(source: unknown)",))],
)  # fmt: skip
def test_an_unreadable_citation_is_reported(text: str, unread: tuple[str, ...]) -> None:
    answer = f"The tower is tall. {text}"
    assert tagged_claims(answer) == ()
    assert unread_citations(answer) == unread


def test_numbers_beside_page_tags_cite_no_page() -> None:
    assert cited_pages("A is b [4]. [Page 1] C is d [5]. [Page 2]") == (1, 2)


def test_a_list_of_sources_and_footnotes_are_no_claims() -> None:
    """A source list cites pages only if the text has no citations; it makes no claims."""
    listed = (
        "A is b [1]. C is d [^2].\n\nSources:\n[1] Handbook, page 9\n[2] Other\n\n[^2]: A footnote "
        "that says much."
    )
    assert [(claim.text, claim.pages) for claim in tagged_claims(listed)] == [
        ("A is b", (1,)),
        ("C is d", (2,)),
    ]
    assert untagged_segments(listed) == ()
    assert cited_pages("A is b. C is d.\n\nQuellen:\n- [Page 1]\n- [Page 2]") == (1, 2)


@pytest.mark.parametrize(
    ("context", "numbers"),
    [
        ({"Page-7": "a", "page 9": "b"}, {7: "a", 9: "b"}),
        ({"page 7": "a", "Page-7": "b"}, {7: "b"}),
        ({"doc-3": "a", "doc-1": "b"}, {3: "a", 1: "b"}),
        ({"handbook.pdf": "a", "faq": "b"}, {1: "a", 2: "b"}),
        ({"a-1": "a", "b-1": "b"}, {1: "a", 2: "b"}),
        ({"Page-1": "a", "Cover": "b"}, {1: "a", BEYOND_PAGES + 2: "b"}),
    ],
)
def test_every_page_has_a_number(context: dict[str, str], numbers: dict[int, str]) -> None:
    """A page has the number of its name, else of its position, and keeps it when it is selected alone."""
    sources = read_sources(context)
    assert sources.texts == numbers
    for page, text in numbers.items():
        assert read_sources({sources.key(page): text}).texts == {page: text}


def test_names_are_compared_without_case_and_separators() -> None:
    assert normal_name(" My_Doc 3 ") == normal_name("my-doc-3")
    assert len(normal_name("x" * 10_000)) == 200


@given(st.text(alphabet="[]()\u3010\u3011 1aP-,:^\n\u2020page.Source", max_size=60))
def test_nothing_breaks_it(answer: str) -> None:
    """Claims have correct offsets, and removing citations keeps the length, for any text."""
    for citing in (USUAL, NAMED, Citing(pattern=r"a(\d)")):
        for claim in (*tagged_claims(answer, citing), *untagged_segments(answer, citing)):
            assert answer[claim.start : claim.end] == claim.text
        assert len(without_tags(answer, citing)) == len(answer)


def test_a_pattern_of_any_shape_reads_in_linear_time() -> None:
    """RE2 matches what would take exponential time elsewhere."""
    citing = Citing(pattern=r"<<(?:(\d+)|(?:a+)+b)>>")
    assert cited_pages(f"A is b <<7>>. C is d <<{'a' * 10_000}>>.", citing) == (7,)
