"""What tokens cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from judge.chat import OFFLINE_MODEL
from schemas import Usage

_MILLION = 1_000_000


class Price(Protocol):
    """What one model costs; `ModelPrice` and `judge.verdict.price_list.ListedPrice` are such."""

    def cost_usd(self, usage: Usage) -> float:
        """What one call cost, in USD."""


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """A model's prices, in USD a million tokens.

    Args:
        input_usd: For input that was not cached.
        output_usd: For output.
        cached_usd: For input from the endpoint's prompt cache; None: as other input.
    """

    input_usd: float
    output_usd: float
    cached_usd: float | None = None

    def cost_usd(self, usage: Usage) -> float:
        """What this many tokens cost, in USD. Cached tokens are part of the input and are paid once."""
        cached_usd = self.input_usd if self.cached_usd is None else self.cached_usd
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        return (
            fresh * self.input_usd + cached * cached_usd + usage.output_tokens * self.output_usd
        ) / _MILLION


_FREE = ModelPrice(input_usd=0.0, output_usd=0.0)


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by the endpoint that is asked, else by the model.

    None is built in but the offline judge's, which is 0.

    Args:
        prices: By the model's name, wherever it is asked.
        endpoints: By the endpoint's name; these go first, for one model may cost different amounts at two
            places.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)
    endpoints: Mapping[str, Price] = field(default_factory=dict)

    def price(self, model: str, *, endpoint: str | None = None) -> Price | None:
        """The price of a model at an endpoint; None where it is not known."""
        named = None if endpoint is None else self.endpoints.get(endpoint)
        return named or self.prices.get(model, _FREE if model == OFFLINE_MODEL else None)

    def cost_usd(self, model: str, usage: Usage, *, endpoint: str | None = None) -> float | None:
        """What a call cost, in USD; None where the price is not known, which is not the same as free."""
        price = self.price(model, endpoint=endpoint)
        return None if price is None else price.cost_usd(usage)
