from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.text.redaction import KINDS, Redactor


def test_no_kind_changes_nothing() -> None:
    assert Redactor([]).redact("a@example.com") == "a@example.com"


def test_a_page_tag_stays() -> None:
    """Redaction keeps page tags."""
    text = "It is 330 m tall. Evidence: [Page 7] [Pages 2-4]"
    assert Redactor(KINDS).redact(text) == text


PIECES = st.sampled_from(
    ["a@example.com", "4111 1111 1111 1111", "+44 20 7946 0958", "192.168.0.1", "::1", "password: abcdefgh",
        " ", "\n", ".",
     "-", "1", "x", ":", "@", "[", "]", "AKIAIOSFODNN7EXAMPLE", "-----BEGIN PRIVATE KEY-----"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map(" ".join))
def test_redaction_is_idempotent(text: str) -> None:
    """Redaction is idempotent, because tasks are redacted when built and when judged."""
    redactor = Redactor(KINDS)
    once = redactor.redact(text)
    assert redactor.redact(once) == once


@given(st.text() | st.lists(PIECES, max_size=30).map("".join))
def test_no_text_breaks_anything(text: str) -> None:
    """Any text is redacted without an error, and no whole address is left."""
    redacted = Redactor(KINDS).redact(text)
    assert " a@example.com " not in redacted


@pytest.mark.parametrize(
    "piece", ["1 ", "1-", "a.", "a@", "::", "1.", "password ", "://a:", "eyJ", "-----BEGIN "]
)
def test_repetition_costs_little(piece: str) -> None:
    """Hostile repetition is redacted within the suite's time limit."""
    Redactor(KINDS).redact(piece * 20_000)
