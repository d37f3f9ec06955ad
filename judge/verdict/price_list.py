"""The published prices of hosted models, from the `genai-prices` package.

The list is the one that the installed package holds: nothing is fetched at run time. An endpoint is known by
its address, so that a model that a person serves under a known name is not billed at another's price.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from schemas import Usage


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A model's price as its provider publishes it, with its tiers and dates.

    Args:
        model: The model, as the endpoint names it.
        base_url: The endpoint's address.
    """

    model: str
    base_url: str

    def cost_usd(self, usage: Usage) -> float:
        """What one call cost, in USD.

        Tiers go by the size of a call, so that calls are to be priced one by one.
        """
        return _cost_usd(
            self.model,
            self.base_url,
            usage.input_tokens,
            min(usage.cached_tokens, usage.input_tokens),
            usage.output_tokens,
        )


# A call is priced for its metric and for its result, at once; few entries, for some prices go by the time of
# day.
@lru_cache(maxsize=64)
def _cost_usd(model: str, base_url: str, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
    # Imported where it is first needed: the list takes 0.15 s and 30 MiB, which an unlisted endpoint does
    # without.
    from genai_prices import Usage as PricedUsage  # noqa: PLC0415 - see above
    from genai_prices import calc_price  # noqa: PLC0415 - see above

    priced = PricedUsage(
        input_tokens=input_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens
    )
    return float(calc_price(priced, model, provider_api_url=base_url).total_price)


def listed_price(model: str, *, base_url: str) -> ListedPrice | None:
    """Look up a model.

    Args:
        model: As the endpoint names it.
        base_url: The endpoint's address, up to and with `/v1`.

    Returns:
        Its price, or None where the address is no known provider's or the provider lists no such model.
    """
    price = ListedPrice(model, base_url)
    try:
        price.cost_usd(Usage(input_tokens=1, output_tokens=1))
    except (LookupError, ValueError):
        return None
    return price
