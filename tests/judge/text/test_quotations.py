"""Inexact and invented quotations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.text.quotations import Quotable

PAGE = """# Results

The **new treatment** was [effective](https://example.org/a_(b)) in 1,200 patients.[12] It was well-
known that the treat-
ment of 1889 worked &amp; lasted. He said: \u201cIt works.\u201d

- The first point is about cost
- The second point is about time

1. Open the valve slowly
2. Close the main tap

| Dose | Effect |
|---|---|
| 500 mg | strong relief |

The goverment recieved the report[^3] yesterday evening, without any comment from the ministry. The caf\u00e9 serves
CO\u2082-free water. The drug is not safe for small children in general. Das Ger\u00e4t ist nicht wasserdicht.
"""  # noqa: E501


@pytest.mark.parametrize(
    ("quotation", "words"),
    [
        pytest.param("The new treatment was", "The **new treatment** was", id="bold"),
        pytest.param("in 1,200 patients. It was", "in 1,200 patients.[12] It was", id="footnote"),
        pytest.param("treatment was effective in",
            "treatment** was [effective](https://example.org/a_(b)) in", id="link"),
        pytest.param("The new ... in 1,200 patients", "The **new [\u2026] in 1,200 patients", id="dots"),
        pytest.param("The first point is about cost, the second point is about time",
                     "The first point is about cost\n- The second point is about time", id="bullets"),
        pytest.param("Open the valve slowly; close the main tap",
            "Open the valve slowly\n2. Close the main tap", id="numbers"),
        pytest.param("that the treatment of 1889 worked", "that the treat-\nment of 1889 worked",
            id="hyphen"),
        pytest.param("It was well-known that", "It was well-\nknown that", id="hyphen-kept"),
        pytest.param("The government received the report yesterday",
            "The goverment recieved the report[^3] yesterday", id="typo"),
        pytest.param("He said: 'It works'", "He said: \u201cIt works", id="quotation-marks"),
        pytest.param("without any comment from the ministry!", "without any comment from the ministry",
            id="stop"),
        pytest.param("500 mg: strong relief", "500 mg | strong relief", id="table"),
        pytest.param("Page 7: worked & lasted", "worked &amp; lasted", id="page"),
        pytest.param("[Seite 7] worked & lasted", "worked &amp; lasted", id="page-in-brackets"),
        pytest.param("worked & lasted", "worked &amp; lasted", id="entity"),
        pytest.param("THE NEW TREATMENT WAS", "The **new treatment** was", id="case"),
        pytest.param("The cafe serves CO2-free water", "The caf\u00e9 serves\nCO\u2082-free water",
            id="accents"),
        pytest.param("in 1200 patients", "in 1,200 patients", id="thousands"),
        pytest.param("the report yesterday evening, with no comment from the ministry",
                     "the report[^3] yesterday evening, without any comment from the ministry",
                     id="two-words"),
        pytest.param("... the treatment of 1889 worked [...]", "the treat-\nment of 1889 worked",
            id="dots-around"),
    ],
)  # fmt: skip
def test_the_kinds_of_inexact_quotation(quotation: str, words: str) -> None:
    """An inexact quotation is found, and the result is the words of the text."""
    found = Quotable(PAGE).find(quotation)
    assert found is not None
    assert found.words == words
    assert found.kind != "exact"
    assert PAGE[found.start : found.end].startswith(words[:7])


@pytest.mark.parametrize(
    "quotation",
    [
        "The new treatment was effective in 1,300 patients",  # another number
        "The drug is safe for small children in general",  # a lost negation
        "Das Ger\u00e4t ist wasserdicht",
        "The old treatment was a complete failure in all patients",
        "in 1,200 patients ... The new treatment",  # in reverse order
        "The ... was ... in ... of",  # single words are too little
        "treatmen",
        "Page 7:",
        "1,20",
        "...",
        "",
        "?!",
        "the dog ate my homework today",
    ],
)
def test_an_invented_quotation_is_not_found(quotation: str) -> None:
    assert Quotable(PAGE).find(quotation) is None


def test_an_exact_quotation_is_found_at_all_its_places() -> None:
    places = [found.place for found in Quotable("A b. A b. A b.").find_all("A b.")]
    assert places == [(0, 4), (5, 9), (10, 14)]


def test_a_text_may_be_read_without_its_tags() -> None:
    """A text with blanked tags gives offsets of the original."""
    text = "It is tall. [Page 1] It is old."
    found = Quotable(text, read=text.replace("[Page 1]", " " * 8)).find("It is tall. It is old.")
    assert found is not None
    assert found.words == text[:-1]


@pytest.mark.parametrize(
    ("text", "quotation"),
    [
        ("Die **Ma\u00dfnahme** wurde am 3. Mai\u00a0beschlossen.",
            "Die Ma\u00dfnahme wurde am 3. Mai beschlossen"),
        ("L\u2019**\u00e9cole** est ferm\u00e9e le dimanche.", "L'\u00e9cole est ferm\u00e9e le dimanche"),
        ("La *soluci\u00f3n* es segura.", "La solucion es segura"),
        ("Cihaz\u0131n **garantisi** iki y\u0131ld\u0131r.", "Cihaz\u0131n garantisi iki y\u0131ld\u0131r"),
        ((
                "\u0627\u0644\u062f\u0651\u064e\u0648\u0627\u0621\u064f **\u0622\u0645\u0646** "
                "\u0644\u0644\u0623\u0637\u0641\u0627\u0644."
            ),
            (
                    "\u0627\u0644\u062f\u0648\u0627\u0621 \u0622\u0645\u0646 "
                    "\u0644\u0644\u0623\u0637\u0641\u0627\u0644"
                )),
        ("\u6771\u4eac\u306f**\u65e5\u672c**\u306e\u9996\u90fd\u3067\u3059\u3002",
            "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059"),
    ],
)  # fmt: skip
def test_other_languages(text: str, quotation: str) -> None:
    """Accents, other alphabets and scripts without spaces are compared."""
    assert Quotable(text).find(quotation) is not None


WORDS = st.lists(st.sampled_from(
    ["alpha", "beta", "gamma", "not", "12", "1,200", "**", "[", "](x)", "...", "\u2026", "&amp;", "-\n", "\n",
        "- ", "1. ", "|", "\u6771", "\u00e9", "[1]", "<b>", "'"]
), max_size=25).map(" ".join)  # fmt: skip


@given(WORDS | st.text(max_size=60), WORDS | st.text(max_size=60))
def test_nothing_breaks_it(text: str, quotation: str) -> None:
    """Every match of any two texts is a span of the text."""
    for found in Quotable(text).find_all(quotation):
        assert 0 <= found.start < found.end <= len(text)
        assert found.kind == "joined" or found.words == text[found.start : found.end]


@given(
    st.lists(
        st.sampled_from(
            ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
        ),
        min_size=8,
        max_size=40,
    ),
    st.data(),
)
def test_one_slip_in_a_long_quotation_is_forgiven(words: list[str], data: st.DataObject) -> None:
    """A long quotation is found despite one lost or changed letter."""
    text = " ".join(words)
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.sampled_from(["", "x"])) + text[place + 1 :]
    assert Quotable(f"Before it. {text}. And after it.").find(changed) is not None
