"""Parsing of endpoint replies, hostile replies included."""

from __future__ import annotations

import json

import pytest

from judge.endpoint.completion import MAX_TOKENS, NoCompletionError, read_completion


def body(tokens: str = "3", model: str = '"m"') -> bytes:
    return (
        f'{{"model": {model}, "choices": [{{"message": {{"content": "x"}}}}], '
        f'"usage": {{"prompt_tokens": {tokens}, "completion_tokens": 2}}}}'
    ).encode()


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ("3", 3),
        ("-3", 0),
        ("1e400", 0),
        ('"many"', 0),
        (str(2**70), MAX_TOKENS),
        ("1" + 400 * "0", MAX_TOKENS),
        ("1" + 9_000 * "0", MAX_TOKENS),
    ],
    ids=["3", "-3", "1e400", "text", "2^70", "10^400", "10^9000"],
)
def test_token_counts_are_bounded(said: str, counted: int) -> None:
    """An invalid token count is read as 0 and a huge one as `MAX_TOKENS`; the text is kept."""
    completion = read_completion(body(said))
    assert completion.text == "x"
    assert completion.usage.input_tokens == counted
    assert completion.usage.output_tokens == 2


def test_a_model_name_is_encodable_and_bounded() -> None:
    """A lone surrogate in a model name is replaced, and the name is cut at 200 characters."""
    assert read_completion(body(model='"a\\ud800b"')).model == "a\ufffdb"
    assert len(read_completion(body(model=json.dumps("m" * 5_000))).model or "") == 200


@pytest.mark.parametrize("start", [b"[", b'{"a":', b'{"choices":[{"message":{"content":'])
def test_deep_nesting_is_no_completion(start: bytes) -> None:
    """1.6 MB of nested brackets are refused."""
    with pytest.raises(NoCompletionError):
        read_completion(start * (1_600_000 // len(start)))


@pytest.mark.parametrize("where", ["content", "tool_calls", "reasoning", "x"])
@pytest.mark.parametrize("what", ["{}", "[]", "1e308", "1"])
def test_structures_of_a_reply_that_hold_no_text_are_not_built(where: str, what: str) -> None:
    """Structures without text are skipped: parsing 4 MB of them would take 400 MB or 10 s."""
    field = f'"{where}": [{",".join([what] * 200_000)}]'
    completion = read_completion(f'{{"choices": [{{"message": {{{field}}}}}], "model": "m"}}'.encode())
    assert (completion.text, completion.model) == ("", "m")


def test_lone_surrogates_are_replaced_in_every_field() -> None:
    """Lone surrogates are replaced in every field; pairs and escaped backslashes stay."""
    raw = rb'{"id": "\ud800", "model": "\uDFFFm", "choices": [{"finish_reason": "\ud800stop", '
    raw += rb'"message": {"content": "\\\\ud800 \ud83d\ude00 \ud83d"}}]}'
    completion = read_completion(raw)
    assert completion.text == "\\\\ud800 \U0001f600 \ufffd"
    assert (completion.model, completion.finish_reason) == ("\ufffdm", "\ufffdstop")
