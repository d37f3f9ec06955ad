from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ResponseSchema
from judge.metrics import prompting
from judge.metrics.coverage import COVERAGE_SCHEMA
from judge.metrics.prompting import built_in_hash, fence, load_prompt, parse_fenced, schema_hash
from judge.metrics.relevance import RELEVANCE_SCHEMA
from judge.text.normal import neutralize

NAMES = st.sampled_from(["question", "answer", "reference", "Page-7", "Page-12", "missing_pages", "a"])
IMITATIONS = st.lists(
    st.sampled_from(
        ["<<<", ">>>", "01234567", " question", " answer", "\n", "\r", "\u2028", "x", "\x00", "é",
         "\ud800", "\u200b"]
    ),
    max_size=15,
).map("".join)  # fmt: skip
PROMPTS = ["coverage.evidence", "coverage.pack", "relevance.evidence", "relevance.pack"]


@given(st.dictionaries(NAMES, st.text() | IMITATIONS, min_size=1))
def test_fenced_texts_are_read_back(sections: dict[str, str]) -> None:
    parsed = parse_fenced(fence(sections))
    assert list(parsed.items()) == [(name, neutralize(text)) for name, text in sections.items()]


@given(st.dictionaries(NAMES, st.text() | IMITATIONS, min_size=1), NAMES)
def test_a_fenced_message_does_not_get_out_of_another_fence(sections: dict[str, str], name: str) -> None:
    inner = fence(sections)
    assert parse_fenced(fence({name: inner})) == {name: neutralize(inner)}


def test_a_mark_that_occurs_in_a_text_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompting, "_MARK_CHARS", 1)
    assert fence({"answer": "0123456789abcde"}).count("<<<f answer>>>") == 1


def test_the_mark_occurs_between_sections_only_and_is_another_for_another_event() -> None:
    event = {"question": "q", "answer": "<<<01234567>>>"}
    message = fence(event)
    (mark,) = re.findall(r"<<<([0-9a-f]{8}) question>>>", message)
    assert message.count(mark) == 2 + 1 + 1
    assert message == fence(event)
    assert mark not in fence(event | {"answer": "b"})


@pytest.mark.parametrize("name", ["", "two words", "7", "a\nb", "é", "a>>>", "a\n"])
def test_a_section_name_cannot_break_the_fence(name: str) -> None:
    with pytest.raises(ValueError, match="section name"):
        fence({name: "text"})


def test_a_message_without_a_fence_has_no_sections_and_a_cut_one_is_an_error() -> None:
    assert parse_fenced("Question: what? Answer: that.") == {}
    with pytest.raises(ValueError, match='"answer" has no end'):
        parse_fenced(fence({"question": "q", "answer": "a" * 100})[:-80])


@pytest.mark.parametrize(
    ("name", "schema"), [("coverage.evidence", COVERAGE_SCHEMA), ("relevance.evidence", RELEVANCE_SCHEMA)]
)
def test_the_schemas_are_strict_and_the_instructions_name_their_keys(
    name: str, schema: ResponseSchema
) -> None:
    assert re.fullmatch("[a-z_]{1,64}", schema.name)
    for key in _strict_keys(schema.schema):
        assert re.search(rf"`(?:\w+\.)?{key}`", load_prompt(name)), key


def _strict_keys(node: Any) -> set[str]:
    assert set(node) <= {"type", "properties", "required", "additionalProperties", "items"}
    if node["type"] == "array":
        return _strict_keys(node["items"])
    if node["type"] != "object":
        return set()
    assert node["additionalProperties"] is False
    assert node["required"] == list(node["properties"])
    return set(node["properties"]).union(*map(_strict_keys, node["properties"].values()))


def test_hashes_tell_prompts_and_schemas_apart() -> None:
    hashes = {built_in_hash(load_prompt(name)) for name in PROMPTS}
    hashes |= {schema_hash(COVERAGE_SCHEMA), schema_hash(RELEVANCE_SCHEMA)}
    assert len(hashes) == 6
    assert all(re.fullmatch("[0-9a-f]{12}", one) for one in hashes)
    assert schema_hash(None) == "none"
