"""Reading what endpoints answer, hostile answers included."""

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
def test_tokens_are_counted_within_what_a_call_can_take(said: str, counted: int) -> None:
    """No verdict is lost over it, and no counter or reader meets a number that it cannot hold."""
    completion = read_completion(body(said))
    assert completion.text == "x"
    assert completion.usage.input_tokens == counted
    assert completion.usage.output_tokens == 2


def test_a_model_that_nobody_could_write_down_is_replaced_and_cut() -> None:
    """A lone surrogate stands in no UTF-8, and no name has thousands of characters."""
    assert read_completion(body(model='"a\\ud800b"')).model == "a\ufffdb"
    assert len(read_completion(body(model=json.dumps("m" * 5_000))).model or "") == 200


@pytest.mark.parametrize("start", [b"[", b'{"a":', b'{"choices":[{"message":{"content":'])
def test_deep_nesting_is_no_completion(start: bytes) -> None:
    """1.6 MB of it are abandoned at once, however deep they go."""
    with pytest.raises(NoCompletionError):
        read_completion(start * (1_600_000 // len(start)))
