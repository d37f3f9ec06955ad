from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.errors import InvalidVerdictError
from judge.metrics.replies import extract_object, extract_verdict

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ('{"score": 4}', 4),
        ('\ufeff{"score": 4}', 4),
        ('```json\n{"score": 3, "rationale": ["a {b} c"]}\n```', 3),
        ('It is {"score": 2}, as I said:\n{"score": 2}\nThat is all.', 2),
        ('<think>Perhaps {"score": 1}, {"score": 3}.</think>\n{"score": 2}', 2),
        ('<think>{"score": 2} it is', 2),
        ('{"score": 4, "parts": [1, 2,],}', 4),
        ('{"score": 4, "why": "two\nlines"}', 4),
        ('<tool_call>{"name": "verdict", "arguments": {"score": 4}}</tool_call>', 4),
        ('{"score": 4, "score": 4}', 4),
        ('Thinking {about braces} and {"items": [{"score": 9}]}. {"score": 5}', 5),
        ('{"score": 4, "details": [{"score": 1}]} is my verdict', 4),
        ("{" * 500 + '{"score": 0}', 0),
    ],
)
def test_the_outermost_object_with_a_score_is_the_verdict(reply: str, score: int) -> None:
    """The verdict is found despite fences, prose, reasoning, inner objects and JSON slips."""
    assert extract_verdict(reply)["score"] == score


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("", "nothing"),
        ("no verdict here", "no verdict here"),
        ("[1, 2]", "no JSON object"),
        ('{"points": 4}', '"score"'),
        ('{"score": NaN}', "NaN"),
        ('{"score": -Infinity}', "Infinity"),
        ('{"score": 1e999}', "large"),
        ('so: {"score": 123456789012345678901234567890}', "64 bits"),
        ('{"score": 1, "x": ' + "[" * 100 + "]" * 100 + "}", "nested"),
        ('{"score": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "cannot be read"),
        ('{"score": 1, "x": ' + "[" * 40 + "]" * 40 + ",}", "nested deeper"),
        ('{"score": ' + "1" * 10_000 + "}x", "64 bits"),
        ('{"score": 4', "cannot be read"),
        ('At first {"score": 1}, but on reflection:\n{"score": 2}', "2 JSON objects .* that differ"),
        ('I write {"score": NaN} or rather {"score": 2}', "NaN"),
        ("{'score': 4}", "cannot be read"),
        ("{score: 4}", "cannot be read"),
        ('{"score": 5, "score": 1}', "given twice"),
        ('{"score": 4, "inner": {"score": 1}, oops}', "cannot be read"),
    ],
)
def test_a_malformed_reply_is_refused_with_the_defect(reply: str, word: str) -> None:
    with pytest.raises(InvalidVerdictError, match=word):
        extract_verdict(reply)


def test_a_lone_surrogate_is_replaced() -> None:
    verdict = extract_verdict('see: {"score": 1, "why": "a\\ud800b", "pair": "\\ud83d\\ude00"}')
    assert verdict == {"score": 1, "why": "a\ufffdb", "pair": "😀"}


def test_another_key_can_be_asked_for() -> None:
    assert extract_object('{"score": 1} {"items": []}', key="items") == {"items": []}


def test_a_hostile_reply_costs_a_bounded_amount_of_work() -> None:
    """250,000 open braces are refused in linear time."""
    with pytest.raises(InvalidVerdictError):
        extract_verdict('{"":' * 250_000)


@given(st.text())
def test_any_text_gives_a_verdict_or_the_one_error(text: str) -> None:
    try:
        verdict = extract_verdict(text)
    except InvalidVerdictError as error:
        error.detail.encode()
    else:
        assert "score" in verdict


@given(JSON, st.text("ab {}[]\n`\"'", max_size=20), st.text("ab }[]\n`\"'", max_size=20))
def test_json_within_prose_is_read_back(extra: Any, before: str, after: str) -> None:
    verdict = {"score": 3, "extra": extra}
    # A brace followed by a quote would start another object, so quotes are removed.
    text = before.replace('"', "").replace("'", "") + " " + json.dumps(verdict) + " " + after
    assert extract_verdict(text) == verdict
