"""Published prices of hosted models, from the `genai-prices` package.

The list is part of the installed package; nothing is fetched at run time. Providers are identified by the
endpoint's address, so a self-hosted model with a known name does not get a provider's price.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from schemas import Usage


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A model's price as published by its provider, with tiers and dates.

    Args:
        model: The model, as the endpoint names it.
        base_url: The endpoint's address.
    """

    model: str
    base_url: str

    def cost_usd(self, usage: Usage) -> float:
        """Return the cost of one call, in USD.

        Price tiers depend on a call's size, so price calls one by one.
        """
        return _cost_usd(
            self.model,
            self.base_url,
            usage.input_tokens,
            min(usage.cached_tokens, usage.input_tokens),
            usage.output_tokens,
        )


# Each call is priced twice in quick succession (metric and result). Few entries, because some prices depend
# on the time of day.
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
    """Return the listed price of a model.

    Args:
        model: As the endpoint names it.
        base_url: The endpoint's address, up to and with `/v1`.

    Returns:
        Its price; None if the provider or its model is not listed.
    """
    price = ListedPrice(model, base_url)
    try:
        price.cost_usd(Usage(input_tokens=1, output_tokens=1))
    except (LookupError, ValueError):
        return None
    return price
