"""Every expression and every loop over foreign text takes linear time, and no bytes break a reader.

The tests of growth compare ratios, so they hold on any machine.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.places import ROOT
from tests.robustness import corpus, growth
from tests.robustness.expressions import (
    METHODS,
    Expression,
    compiled_at_import,
    expressions,
    modules_with_expressions,
)
from tests.robustness.readers import READERS
from tests.robustness.targets import TARGETS, seeds

WHOLE: Final = os.environ.get("HOSTILE", "") == "whole"
"""`make fuzz` runs every text through every reader; `make test` former failures and the worst of
each kind."""
_USUAL: Final = (
    "colons", "dots", "stops without an end", "-eyJ", "grown by NFKC", "Korean", "marks out of order",
    "tables", "one stem",
    "different tags", "list of claims", "nested JSON", "a tag of blanks", "braces in a string",
)  # fmt: skip
_READ: Final = ("stops without an end", "marks out of order", "one stem", "different tags", "nested JSON")
_ON_MORE: Final = ("index, a place", "words", "sentences", "claims", "reply")
_REPEATED: Final = (
    "open tags", "page lists", "pages of one claim", "evidence", "marks", "Han", "digits and dots",
    "brace and name",
)  # fmt: skip
_MANY: Final = ("Korean, unspaced", "dots")
_SIZES: Final = growth.SIZES if WHOLE else growth.SIZES[:2]
# The module reads at most this many characters of a text.
BOUNDED: Final = {
    ("judge.text.words", "_LAST_WORD"): 20,
    ("judge.text.citations", "_LEAD_IN"): 25,
    ("judge.text.citations", "_KEY"): 64,
    ("judge.endpoints.refusals", "_PART"): 64,
    ("judge.text.redaction", "_EXPRESSION"): 500,
}


def _steep(function: Callable[[str], object], texts: tuple[str, ...]) -> list[str]:
    found = []
    for name in texts:
        ratio, where = growth.steepest(function, name, sizes=_SIZES)
        if ratio > growth.MAX_RATIO:
            found.append(f"{name}: {ratio:.1f} times as long for twice the text ({where})")
    return found


@pytest.mark.parametrize("module", modules_with_expressions())
def test_expressions_read_in_proportion(module: str) -> None:
    texts = tuple(corpus.TEXTS) if WHOLE else (*_USUAL, *corpus.PLAIN)
    for one in expressions():
        if one.module == module:
            assert _steep(partial(_read, one), texts) == [], f"{one.name}.{one.method}"


def _read(expression: Expression, text: str) -> object:
    return expression.function(text[: BOUNDED.get((expression.module, expression.name))])


@pytest.mark.parametrize("name", READERS)
def test_a_reader_reads_in_proportion(name: str) -> None:
    usual: tuple[str, ...] = (*_READ, *_MANY) if "200" in name or "every" in name else _READ
    if name in _ON_MORE:
        usual = (*_READ, *_REPEATED, *corpus.PLAIN)
    assert _steep(READERS[name], tuple(corpus.TEXTS) if WHOLE else usual) == []


def test_no_expression_hides() -> None:
    """No expression is compiled in a function or passed to `re` as text, except in listed modules."""
    hidden = []
    names = {*METHODS, "compile"}
    for package in ("judge", "schemas", "streams"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text("utf-8")
            if not re.search(r"\bre2?\.", text):
                continue
            tree = ast.parse(text)
            top = {id(call) for call in compiled_at_import(tree)}
            called = [one.func for one in ast.walk(tree) if isinstance(one, ast.Call) and id(one) not in top]
            named = [one for one in called if isinstance(one, ast.Attribute) and one.attr in names]
            if any(ast.unparse(one.value) in {"re", "re2"} for one in named):
                hidden.append(str(path.relative_to(ROOT)))
    assert sorted(set(hidden) - OWN_TEXTS) == []


OWN_TEXTS: Final = {
    "judge/metrics/code.py",
    "judge/metrics/packs/templates.py",
    "judge/metrics/prompting.py",
    "judge/text/tags.py",
    "judge/text/redaction.py",
    "streams/settings/addresses.py",
    "streams/settings/load.py",
    "streams/store/query.py",
    "streams/telemetry/instruments.py",
    "streams/telemetry/labels.py",
}
"""Modules whose hidden expressions read texts of this project or its settings, a bounded text, or have one
repetition."""


def test_the_measure_tells_a_square() -> None:
    def squared(text: str) -> int:
        return sum(1 for place in range(0, len(text), 4) for _ in range(0, place, 4))

    assert growth.steepest(squared, "letters")[0] > growth.MAX_RATIO
    assert growth.steepest(lambda text: text.replace("a", "bb").count("b"), "letters")[0] <= growth.MAX_RATIO


def test_the_corpus_is_of_the_size_that_is_asked_for() -> None:
    for name in corpus.TEXTS:
        assert 0.9 < len(corpus.text(name, 10_000)) / 10_000 < 1.1, name


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_break_nothing(target: str) -> None:
    assert seeds(target)
    for seed in seeds(target):
        TARGETS[target](seed)


@st.composite
def changed(draw: st.DrawFn, target: str) -> bytes:
    data = draw(st.sampled_from(seeds(target)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(start + 40, len(data))))
        part = data[start:end]
        put = draw(
            st.binary(max_size=12)
            | st.just(part * draw(st.integers(0, 20)))
            | st.text(max_size=6).map(str.encode)
        )
        data = data[:start] + put + data[end:]
    return data


@pytest.mark.parametrize("target", TARGETS)
def test_mutated_seeds_give_a_result_or_an_expected_error(target: str) -> None:
    options = settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
    options(given(changed(target) | st.binary(max_size=200))(TARGETS[target]))()
