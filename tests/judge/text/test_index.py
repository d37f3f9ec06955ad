# ruff: noqa: RUF001 - the test data has lookalike characters
from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from judge.text.normal import TextIndex, is_blank, neutralize, normalise, quoted
from judge.text.words import sentences, words
from tests.judge.messy import MESSY


@pytest.mark.parametrize(
    ("text", "span", "found"),
    [
        ("The Eiffel Tower.", "eiffel TOWER", "Eiffel Tower"),
        ("The  Eiffel\n\tTower.", "The Eiffel Tower", "The  Eiffel\n\tTower"),
        ("The Eiffel\u00a0Tower", "Eiffel Tower", "Eiffel\u00a0Tower"),
        ("The Eiffel\x00Tower", "Eiffel Tower", "Eiffel\x00Tower"),
        ("Eif\u00adfel \u200bTo\u2060wer", "Eiffel Tower", "Eif\u00adfel \u200bTo\u2060wer"),
        ("Paris", "Pa\u202eris\ufeff", "Paris"),
        ("He said “yes”, didn’t he?", "\"yes\", didn't", "“yes”, didn’t"),
        ("1889–1925", "1889-1925", "1889–1925"),
        ("caf\u00e9 noir", "cafe\u0301", "caf\u00e9"),
        ("cafe\u0301 noir", "caf\u00e9", "cafe\u0301"),
        ("the of\ufb01ce", "office", "of\ufb01ce"),
        ("in der Straße", "STRASSE", "Straße"),
        ("ΟΔΟΣ", "οδος", "ΟΔΟΣ"),
        ("Ｆｕｌｌ　ｗｉｄｔｈ", "full width", "Ｆｕｌｌ　ｗｉｄｔｈ"),
        ("我在北京大学读书", "北京大学", "北京大学"),
        ("서울에서 만나요", "서울", "서울"),
        ("in 1889.", "1889", "1889"),
        ("in 1889. It", "in 1889.", "in 1889."),
        ("A. 5, 6", "5", "5"),
        ("wait… what", "wait...", "wait…"),
        ("a party of art", "art", "art"),
        ("half \ud800 pair", "half \ufffd pair", "half \ud800 pair"),
    ],
)  # fmt: skip
def test_a_span_is_found_in_any_typographic_form(text: str, span: str, found: str) -> None:
    """Case, white space, invisible characters, quotes, dashes and Unicode form do not matter.

    Offsets refer to the original text.
    """
    place = TextIndex(text).find(span)
    assert place is not None
    assert text[place[0] : place[1]] == found


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a party", "art"),
        ("a party", "part"),
        ("a party", "arty"),
        ("in 18895", "1889"),
        ("it is 1.85 m", "1.8"),
        ("it is 1.85 m", "85"),
        ("18,000 men", "18"),
        ("café", "cafe"),
        ("½ cup", "1"),
        ("office \ufb01t", "f"),
        ("각", "가"),
        ("か\u3099く", "か"),
        ("हिन्दी", "हि"),
        ("Paris is large", "Paris large"),
        ("anything", ""),
        ("any  thing", " \n"),
        ("any\u200bthing", "\u200b\x00"),
        ("", "x"),
        ("a\ufffdb", "\ufffd"),
    ],
)
def test_a_span_within_a_word_or_a_blank_one_is_not_found(text: str, span: str) -> None:
    """Parts of words or numbers and blank spans are not found."""
    assert TextIndex(text).find(span) is None


def test_all_places_are_found_and_none_overlaps() -> None:
    """Matches are in order and do not overlap."""
    assert list(TextIndex("a a a a b").find_all("A A")) == [(0, 3), (4, 7)]


@given(MESSY, MESSY, MESSY)
def test_a_span_of_a_text_is_found_at_its_place(before: str, span: str, after: str) -> None:
    """A span between spaces is found at a place with the same normal form."""
    # A leading accent would combine with the space before it.
    assume(not unicodedata.combining(normalise(span)[:1] or "x"))
    text = f"{before} {span} {after}"
    place = TextIndex(text).find(span)
    if is_blank(span):
        assert place is None
    else:
        assert place is not None
        assert normalise(text[place[0] : place[1]]) == normalise(span)


@given(MESSY | st.text())
def test_texts_that_read_alike_have_one_form(text: str) -> None:
    """Normalisation is idempotent and independent of Unicode composition and case."""
    form = normalise(text)
    assert normalise(form) == form
    for changed in (unicodedata.normalize("NFC", text), unicodedata.normalize("NFKC", text), text.casefold()):
        # Invisible characters prevent composition, so only texts without any are compared.
        if neutralize(text) == text:
            assert normalise(changed) == form


@given(MESSY | st.text())
def test_offsets_only_grow_and_stay_in_the_text(text: str) -> None:
    """Original offsets stay in the text and increase, except among the marks of one character."""
    index = TextIndex(text)
    offsets = [index.original(position) for position in range(len(index.normal) + 1)]
    assert all(0 <= offset <= len(text) for offset in offsets)
    bases = [
        offset for offset, char in zip(offsets, index.normal, strict=False) if not unicodedata.combining(char)
    ]
    assert bases == sorted(bases)


@pytest.mark.parametrize(
    "text",
    ["a" * 100_000, "a " * 50_000, "1." * 50_000, "\u0301" * 100_000, "é" * 100_000, " \n" * 50_000,
        "北" * 100_000],
)  # fmt: skip
def test_hostile_repetition_is_dealt_with(text: str) -> None:
    """Long repetitions finish within the suite's time limit."""
    index = TextIndex(text)
    assert index.find(text[:50_000] + "x") is None
    index.find(text[:50_001])
    words(index)
    sentences(text)


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        (None, True),
        ("", True),
        (" \n\t\u00a0\u3000", True),
        ("\x00\x00", True),
        ("\u200b\u2060\ufeff\u00ad", True),
        ("\ud800", True),
        ("\u3164", True),
        ("0", False),
        ("?", False),
        ("🙂", False),
    ],
)
def test_invisible_text_is_blank(text: str | None, blank: bool) -> None:
    """Only white space, NUL, invisible and broken characters make a text blank."""
    assert is_blank(text) is blank


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain text", "plain text"),
        ("a\x00b\x07c\x9fd", "a b c d"),
        ("a\r\nb\rc\u2028d\u2029e\nf\tg", "a\nb\nc\nd\ne\nf\tg"),
        ("a\x0bb\x0cc\x85d", "a b c d"),
        ("\ufeffa\u200bb\u202ec\u2066d\u00ade", "abcde"),
        ("x\U000e0041\U000e0042y\ufe0f", "xy"),
        ("a\ud800b\udfff", "a\ufffdb\ufffd"),
        ("“naïve” 北京 🙂", "“naïve” 北京 🙂"),
    ],
)
def test_control_characters_are_not_sent(text: str, clean: str) -> None:
    """Controls become spaces, line ends become newlines, invisible characters are removed."""
    assert neutralize(text) == clean


@given(MESSY | st.text())
def test_a_neutral_text_stays_and_reads_like_the_original(text: str) -> None:
    """`neutralize` is idempotent, gives encodable text and keeps the normal form."""
    clean = neutralize(text)
    assert neutralize(clean) == clean
    clean.encode()
    assert normalise(clean) == normalise(text)


def test_a_quotation_is_short_and_on_one_line() -> None:
    assert quoted("a\nb\x00\u202ec") == '"a b c"'
    assert quoted("x" * 500) == '"' + "x" * 119 + '…"'
