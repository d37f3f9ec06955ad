"""Prices of tokens: given per model, or published by providers (`genai-prices`; nothing is fetched)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from judge.chat import OFFLINE_MODEL
from schemas import Usage


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """A model's prices, in USD per million tokens; `cached_usd`: cached input, None: as other input."""

    input_usd: float
    output_usd: float
    cached_usd: float | None = None
    factor: float = 1.0
    """Share of these prices, in a cheaper tier."""

    def cost_usd(self, usage: Usage) -> float:
        cached_usd = self.input_usd if self.cached_usd is None else self.cached_usd
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        usd = fresh * self.input_usd + cached * cached_usd + usage.output_tokens * self.output_usd
        return usd * self.factor / 1_000_000


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A model's price as its provider, known by the address, publishes it, with tiers and dates."""

    model: str
    base_url: str
    factor: float = 1.0

    def cost_usd(self, usage: Usage) -> float:
        """Return the cost of one call, not of a sum: tiers depend on a call's size."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        usd = _cost_usd(self.model, self.base_url, usage.input_tokens, cached, usage.output_tokens)
        return usd * self.factor


# Each call is priced twice in quick succession. Few entries, because prices may depend on the time of day.
@lru_cache(maxsize=64)
def _cost_usd(model: str, base_url: str, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
    # Imported on first use: the list takes 0.15 s and 30 MiB.
    from genai_prices import Usage as PricedUsage  # noqa: PLC0415 - see above
    from genai_prices import calc_price  # noqa: PLC0415 - see above

    priced = PricedUsage(
        input_tokens=input_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens
    )
    return float(calc_price(priced, model, provider_api_url=base_url).total_price)


def listed_price(model: str, *, base_url: str) -> ListedPrice | None:
    price = ListedPrice(model, base_url)
    try:
        price.cost_usd(Usage(input_tokens=1, output_tokens=1))
    except (LookupError, ValueError):
        return None
    return price


Price: TypeAlias = ModelPrice | ListedPrice
_FREE = ModelPrice(input_usd=0.0, output_usd=0.0)


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by endpoint, else by model, for `cost_usd` on results; the offline judge alone has one, 0."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    endpoints: Mapping[str, Price] = field(default_factory=dict)

    def price(self, model: str, *, endpoint: str | None = None) -> Price | None:
        named = None if endpoint is None else self.endpoints.get(endpoint)
        return named or self.prices.get(model, _FREE if model == OFFLINE_MODEL else None)

    def cost_usd(
        self, model: str, usage: Usage, *, endpoint: str | None = None, factor: float = 1.0
    ) -> float | None:
        """Return the cost in USD; None if the price is unknown, which does not mean free."""
        price = self.price(model, endpoint=endpoint)
        return None if price is None else price.cost_usd(usage) * factor


def total_usage(usages: Iterable[Usage]) -> Usage:
    given = list(usages)
    return Usage(**{name: sum(getattr(usage, name) for usage in given) for name in Usage.model_fields})


def total_cost(costs: Iterable[float | None]) -> float | None:
    given = list(costs)
    known = [cost for cost in given if cost is not None]
    return sum(known) if len(known) == len(given) else None
