from __future__ import annotations

import pytest

from streams.batch.estimate import Lengths, Rates, Sampled, estimate


def took(chars: int, tokens: int, usd: float | None, seconds: float = 2.0) -> Sampled:
    return Sampled(chars, tokens, 10, usd, seconds)


def test_the_mean_is_corrected_by_the_length_of_all_texts() -> None:
    """Tokens and cost are extrapolated by text length, with the sample's regression line.

    Sample: 100 chars 50 tokens, 200 chars 80 tokens: 0.3 tokens a character, mean 65 at 150. Ten tasks of 250
    characters: 10 * (65 + 0.3 * 100) = 950 tokens; in USD 10 * (0.0015 + 0.00001 * 100) = 0.025.
    """
    sample = [took(100, 50, 0.001), took(200, 80, 0.002)]
    found = estimate([(Lengths(10, 2_500), sample)], Rates(in_flight=4))
    assert (found.results, round(found.input_tokens), round(found.output_tokens)) == (10, 950, 100)
    assert found.usd == pytest.approx(0.025)
    assert found.seconds == pytest.approx(10 * 2 / 4)


def test_the_slowest_limit_says_how_long_it_takes() -> None:
    """The slowest limit determines the time.

    Ten results take 5 s with 4 concurrent calls of 2 s, 10 s at one a second, 30 s at 20 requests a minute,
    and 60 s at 600 tokens a minute, as they have 10 * 60 tokens.
    """
    parts = [(Lengths(10, 1_000), [took(100, 50, None)])]
    assert estimate(parts, Rates(4)).seconds == pytest.approx(5)
    assert estimate(parts, Rates(4, 1)).seconds == pytest.approx(10)
    assert estimate(parts, Rates(4, 1, 20)).seconds == pytest.approx(30)
    assert estimate(parts, Rates(4, 1, 20, 600)).seconds == pytest.approx(60)


def test_an_unknown_price_is_not_a_price_of_nothing() -> None:
    """One unknown cost in the sample makes the whole cost unknown."""
    found = estimate([(Lengths(2, 200), [took(100, 50, 0.1), took(100, 50, None)])], Rates(1))
    assert found.usd is None
    assert "price not known" in found.text()
