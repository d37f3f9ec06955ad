from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.text.redaction import KINDS, Kind, Redactor


@pytest.mark.parametrize(
    ("kind", "text", "redacted"),
    [
        ("emails", "Write to ada.lovelace+x@mail.example.co.uk, please.", "Write to [email], please."),
        ("emails", "me@here is no address, nor is @home", "me@here is no address, nor is @home"),
        ("phones", "+44 20 7946 0958 or (555) 123-4567, 555-123-4567", "[phone] or [phone], [phone]"),
        ("phones", "In 1889 for 1,500,000 francs, on 2024-03-15",
            "In 1889 for 1,500,000 francs, on 2024-03-15"),
        ("cards", "4111 1111 1111 1111", "[card]"),
        ("cards", "4111-1111-1111-1112 has a wrong check digit",
            "4111-1111-1111-1112 has a wrong check digit"),
        ("ip", "192.168.0.1 and 2001:db8::1", "[ip] and [ip]"),
        ("ip", "version 1.2.3.4.5 at 10:30:45, 999.1.1.1", "version 1.2.3.4.5 at 10:30:45, 999.1.1.1"),
        ("secrets", "AKIAIOSFODNN7EXAMPLE", "[secret]"),
        ("secrets", "ghp_0123456789012345678901234567890123456", "[secret]"),
        ("secrets", "the key sk-proj-abcdefghijklmnopqrstuvwx", "the key [secret]"),
        ("secrets", 'password = "correct horse"', 'password = "[secret]"'),
        ("secrets", "Authorization: Bearer abcdef123456", "Authorization: Bearer [secret]"),
        ("secrets", "https://bob:secretword@example.com/x", "https://[secret]@example.com/x"),
        ("secrets", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter",
            "[secret]\nafter"),
        ("secrets", "-----BEGIN PRIVATE KEY-----\ncut off", "[secret]"),
        ("secrets", "The secret of a good bread is time.", "The secret of a good bread is time."),
    ],
)  # fmt: skip
def test_only_data_of_its_kind_is_replaced(kind: Kind, text: str, redacted: str) -> None:
    assert Redactor([kind]).redact(text) == redacted


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


def test_telephone_numbers_in_a_row_are_all_replaced() -> None:
    """A plus starts a new phone number directly after another."""
    number = "+44 20 7946 0958"
    assert Redactor(KINDS).redact(" ".join([number] * 4)) == " ".join(["[phone]"] * 4)
