from __future__ import annotations

import pytest

from judge.evaluate.prices import ModelPrice, PriceTable
from schemas import Usage


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        # 600 fresh at 2 USD, 400 cached at 0.5, 100 out at 8 USD a million: 1200 + 200 + 800 = 2200
        # micro-USD.
        (ModelPrice(2.0, 8.0, 0.5), Usage(input_tokens=1000, cached_tokens=400, output_tokens=100), 0.0022),
        # Without their own price cached tokens cost the input price: 2000 + 800.
        (ModelPrice(2.0, 8.0), Usage(input_tokens=1000, cached_tokens=400, output_tokens=100), 0.0028),
        # Cached tokens are at most the input.
        (ModelPrice(2.0, 8.0, 0.0), Usage(input_tokens=10, cached_tokens=400), 0.0),
        (ModelPrice(2.0, 8.0), Usage(), 0.0),
    ],
)
def test_cost_of_a_call(price: ModelPrice, usage: Usage, cost: float) -> None:
    """Cached tokens are part of the input and are charged once."""
    assert PriceTable({"m": price}).cost_usd("m", usage) == pytest.approx(cost)


def test_an_unknown_price_is_not_free() -> None:
    """An unknown price gives a cost of None; the offline judge costs 0 unless a price is set."""
    usage = Usage(input_tokens=1_000_000)
    assert PriceTable().cost_usd("m", usage) is None
    assert PriceTable().cost_usd("offline-rules-1", usage) == 0.0
    assert PriceTable({"offline-rules-1": ModelPrice(1.0, 1.0)}).cost_usd("offline-rules-1", usage) == 1.0
