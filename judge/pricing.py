"""What tokens cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judge.offline import OFFLINE_MODEL
from schemas import Usage

_MILLION = 1_000_000


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
        """What so many tokens cost, in USD. Cached tokens are part of the input and are paid once."""
        cached_usd = self.input_usd if self.cached_usd is None else self.cached_usd
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        return (
            fresh * self.input_usd + cached * cached_usd + usage.output_tokens * self.output_usd
        ) / _MILLION


_FREE = ModelPrice(input_usd=0.0, output_usd=0.0)


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by the name of the model that is asked. No price is built in but the offline judge's, which is 0."""

    prices: Mapping[str, ModelPrice] = field(default_factory=dict)

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """What a call cost, in USD; None where the model's price is not known, which is not the same as free."""
        price = self.prices.get(model, _FREE if model == OFFLINE_MODEL else None)
        return None if price is None else price.cost_usd(usage)
