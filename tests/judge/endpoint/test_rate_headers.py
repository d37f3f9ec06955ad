from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import QuotaReport, RateLimits
from judge.endpoint.rate_headers import duration_seconds, rate_limits


def test_openais_rate_headers_are_read() -> None:
    """Request and token limits are read in the forms of OpenAI's documentation; other headers are ignored."""
    headers = [
        (b"content-type", b"application/json"),
        (b"X-RateLimit-Limit-Requests", b"60"),
        (b"x-ratelimit-limit-tokens", b"150000"),
        (b"x-ratelimit-remaining-requests", b"59"),
        (b"x-ratelimit-remaining-tokens", b"149984"),
        (b"x-ratelimit-reset-requests", b"1s"),
        (b"x-ratelimit-reset-tokens", b"6m0s"),
    ]
    assert rate_limits(headers) == RateLimits(QuotaReport(60, 59, 1), QuotaReport(150_000, 149_984, 360))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-type", b"x")],
        [(b"x-ratelimit-limit-requests", b"many")],
        [(b"x-ratelimit-limit-requests", b"-1")],
        [(b"x-ratelimit-remaining-requests", b"nan")],
        [(b"x-ratelimit-reset-requests", b"9" * 65)],
    ],
)
def test_unreadable_headers_are_ignored(headers: list[tuple[bytes, bytes]]) -> None:
    """Headers without a readable limit give None."""
    assert rate_limits(headers) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("120ms", 0.12),
        ("1d", 86_400.0),
        ("8.64s", 8.64),
        ("17", 17.0),
        ("0", 0.0),
        ("", None),
        ("s", None),
        ("1s later", None),
        ("-1s", None),
        ("1 s", None),
        ("inf", None),
    ],
)
def test_lengths_of_time(text: str, seconds: float | None) -> None:
    """Durations are read in Go's notation and as plain seconds."""
    assert duration_seconds(text) == (None if seconds is None else pytest.approx(seconds))


@given(
    st.lists(
        st.tuples(st.sampled_from([b"x-ratelimit-reset-requests", b"x-ratelimit-"]), st.binary(max_size=80))
    )
)
def test_no_header_breaks_it(headers: list[tuple[bytes, bytes]]) -> None:
    """Any header value parses without an error and never to a negative reset."""
    found = rate_limits(headers)
    assert found is None or (found.requests.reset_seconds or 0) >= 0
