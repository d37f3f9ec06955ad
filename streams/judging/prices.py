"""Prices of the judge's tokens, from the settings or the published lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

import structlog

from judge.chat import OFFLINE_MODEL
from judge.endpoints.addresses import is_loopback
from judge.verdict.price_list import listed_price
from judge.verdict.pricing import ModelPrice, Price, PriceTable
from schemas import Usage
from streams.errors import SettingsError
from streams.judging.from_settings import budget_limits
from streams.settings import EndpointSettings, JudgeSettings

_log = structlog.stdlib.get_logger(__name__)


def build_prices(endpoints: Iterable[EndpointSettings]) -> PriceTable:
    """Return the prices of endpoints: from the settings, else published ones.

    An endpoint without a known price is logged; its results have no cost.
    """
    prices: dict[str, Price] = {}
    for endpoint in endpoints:
        price = price_of(endpoint)
        if price is not None:
            prices[endpoint.name] = price
        elif endpoint.model != OFFLINE_MODEL:
            _log.warning(
                "no known price: results have no cost; set usd_per_million_tokens",
                endpoint=endpoint.name,
                model=endpoint.model,
            )
    return PriceTable(endpoints=prices)


def price_of(endpoint: EndpointSettings) -> Price | None:
    """Return the price of an endpoint's tokens; None if unknown."""
    usd = endpoint.usd_per_million_tokens
    if usd is not None:
        return ModelPrice(input_usd=usd.input, output_usd=usd.output, cached_usd=usd.cached)
    if endpoint.model == OFFLINE_MODEL:
        return None
    return listed_price(endpoint.model, base_url=endpoint.base_url)


def is_paid(endpoint: EndpointSettings) -> bool:
    """Return whether an endpoint on another machine has a known price above 0."""
    price = price_of(endpoint)
    million = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    return (
        price is not None
        and price.cost_usd(million) > 0
        and not is_loopback(urlsplit(endpoint.base_url).hostname or "")
    )


def may_cost(endpoint: EndpointSettings) -> bool:
    """Return whether a call may cost money: on another machine, and not with a price of 0."""
    usd = endpoint.usd_per_million_tokens
    is_free = usd is not None and not (usd.input or usd.output or usd.cached)
    near = is_loopback(urlsplit(endpoint.base_url).hostname or "")
    return not (is_free or near or endpoint.model == OFFLINE_MODEL)


def check_prices(judge: JudgeSettings, endpoints: Sequence[EndpointSettings]) -> None:
    """Check that paid endpoints have a budget, and that a budget in dollars has known prices.

    Raises:
        SettingsError: An endpoint is paid but not limited, or a budget in dollars lacks its price.
    """
    limits = budget_limits(judge)
    paid = [one for one in endpoints if is_paid(one)]
    if paid and not limits.any and not judge.budget.unlimited:
        what = f"is required, because {paid[0].model} at {paid[0].base_url} is paid per token"
        raise SettingsError(
            [f"judge.budget: {what}; set usd_per_day or calls_per_day, or write budget: none"]
        )
    if not limits.in_usd:
        return
    unknown = [one.name for one in endpoints if one.model != OFFLINE_MODEL and price_of(one) is None]
    if unknown:
        raise SettingsError([_unpriced(name) for name in unknown])


def _unpriced(name: str) -> str:
    why = "because no price is known for this model at this address"
    if "/" in name:  # a metric's own model
        return (
            f"metrics.*.model ({name}): has no known price, and a budget in dollars needs one; add an "
            "endpoint with this model and usd_per_million_tokens, or limit calls instead"
        )
    return (
        f"judge.endpoints ({name}).usd_per_million_tokens: is required with a budget in dollars, {why}; set "
        "it, or limit calls instead"
    )
