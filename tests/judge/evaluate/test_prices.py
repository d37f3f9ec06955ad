from __future__ import annotations

import subprocess
import sys

import pytest
from genai_prices import data_snapshot

from judge.evaluate.prices import ModelPrice, PriceTable, listed_price
from schemas import Usage

OPENAI = "https://api.openai.com/v1"
MILLION = Usage(input_tokens=1_000_000)
CALL = Usage(input_tokens=1000, cached_tokens=400, output_tokens=100)
TOO_MANY_CACHED = Usage(input_tokens=10, cached_tokens=99)


def test_a_hosted_model_has_its_published_price() -> None:
    """GPT-4.1 mini costs 0.40 USD for input, 0.10 for cached input and 1.60 for output a million tokens."""
    price = listed_price("gpt-4.1-mini", base_url=OPENAI)
    assert price is not None
    # 600 * 0.4 + 400 * 0.1 + 100 * 1.6 = 240 + 40 + 160 = 440 micro-USD.
    assert price.cost_usd(CALL) == pytest.approx(440e-6)
    assert price.cost_usd(TOO_MANY_CACHED) == pytest.approx(1e-6)
    assert not data_snapshot.get_snapshot().from_auto_update


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("no-such-model", OPENAI),
        ("gpt-4.1-mini", "http://127.0.0.1:8000/v1"),
        ("gpt-4.1-mini", "https://gateway.example/v1"),
    ],
)
def test_an_unlisted_model_has_no_price(model: str, base_url: str) -> None:
    assert listed_price(model, base_url=base_url) is None


def test_an_endpoint_without_a_listed_price_does_not_load_the_list() -> None:
    code = (
        "import judge.evaluate.prices, judge.evaluate.evaluator, sys; sys.exit('genai_prices' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_endpoints_price_goes_before_the_models() -> None:
    table = PriceTable({"m": ModelPrice(1.0, 1.0)}, endpoints={"spare": ModelPrice(3.0, 3.0)})
    assert table.cost_usd("m", MILLION, endpoint="spare") == 3.0
    assert table.cost_usd("m", MILLION, endpoint="primary") == 1.0
    assert table.cost_usd("m", MILLION) == 1.0
    assert table.cost_usd("other", MILLION, endpoint="primary") is None
    assert table.cost_usd("offline-rules-1", MILLION) == 0.0
    assert PriceTable({"offline-rules-1": ModelPrice(1.0, 1.0)}).cost_usd("offline-rules-1", MILLION) == 1.0


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        # 600 fresh at 2 USD, 400 cached at 0.5, 100 out at 8 USD a million: 1200 + 200 + 800 micro-USD.
        (ModelPrice(2.0, 8.0, 0.5), CALL, 0.0022),
        # Without their own price cached tokens cost the input price: 2000 + 800.
        (ModelPrice(2.0, 8.0), CALL, 0.0028),
        (ModelPrice(2.0, 8.0, 0.0), TOO_MANY_CACHED, 0.0),
        (ModelPrice(2.0, 8.0), Usage(), 0.0),
    ],
)
def test_cached_tokens_are_part_of_the_input_and_charged_once(
    price: ModelPrice, usage: Usage, cost: float
) -> None:
    assert PriceTable({"m": price}).cost_usd("m", usage) == pytest.approx(cost)
