"""The estimate of a replay."""

from __future__ import annotations

from collections import Counter

import pytest

from streams.batch.estimate import CALL_SECONDS, REPLY_TOKENS, Mean, Scan, estimate
from streams.settings import EndpointSettings

PRICED = EndpointSettings.model_validate(
    {"name": "a", "model": "m", "usd_per_million_tokens": {"input": 1.0, "output": 10.0}}
)
UNPRICED = EndpointSettings(name="b", base_url="http://judge.example/v1", model="unknown")


def scan(count: int = 10, tokens: int = 950) -> Scan:
    return Scan(left=Counter(tone=count), input_tokens=Counter(tone=tokens))


def test_live_results_tell_replies_and_seconds() -> None:
    """Ten answers of 950 input tokens together; live replies had 10 tokens and took 2 s on average.

    950 * 1e-6 + 100 * 10e-6 = 0.00195 USD; four at once take 10 * 2 / 4 = 5 s.
    """
    live = Mean()
    live.add(5, 1.0)
    live.add(15, 3.0)
    live.add(99, None)  # without a call
    found = estimate(scan(), {"tone": live}, {"tone": [PRICED]}, in_flight=4)
    assert (found.results, found.input_tokens, found.output_tokens, found.seconds) == (10, 950, 100, 5.0)
    assert found.cost_usd == pytest.approx(0.00195)


def test_votes_count_each_and_code_costs_nothing() -> None:
    """Two votes double tokens and cost; code has no calls; without live results replies are assumed."""
    found = estimate(scan(), {}, {"tone": [PRICED, PRICED]}, in_flight=10)
    assert (found.input_tokens, found.output_tokens) == (1_900, 2 * 10 * REPLY_TOKENS)
    assert found.seconds == 2 * CALL_SECONDS
    free = estimate(scan(tokens=0), {}, {"tone": []}, in_flight=10)
    assert (free.input_tokens, free.output_tokens, free.cost_usd, free.seconds) == (0, 0, 0.0, 0.0)


def test_the_slowest_limit_says_how_long_it_takes() -> None:
    """At one a second 10 s, at 20 requests a minute 30 s; at 600 tokens a minute 4,950 tokens take 495 s."""
    tasks, voters = scan(), {"tone": [PRICED]}
    assert estimate(tasks, {}, voters, in_flight=4).seconds == 5.0
    assert estimate(tasks, {}, voters, in_flight=4, per_second=1).seconds == 10.0
    assert estimate(tasks, {}, voters, in_flight=4, requests_per_minute=20).seconds == 30.0
    assert estimate(tasks, {}, voters, in_flight=4, tokens_per_minute=600).seconds == 495.0


def test_an_unknown_price_is_not_a_price_of_nothing() -> None:
    """One endpoint without a price makes the whole cost unknown."""
    found = estimate(scan(), {}, {"tone": [PRICED, UNPRICED]}, in_flight=1)
    assert found.cost_usd is None
    assert "price not known" in found.text()
