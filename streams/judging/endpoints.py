"""The judge's endpoints: which one a metric asks, their prices, and the pool that asks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import structlog

from judge.chat import OFFLINE_MODEL, ChatClient
from judge.endpoints.connection import list_models
from judge.endpoints.endpoint import MOST_PROBES
from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.options import CONFIRM_SECONDS, EndpointObserver, EndpointOptions, Patience, is_loopback
from judge.endpoints.panel import TwoPhaseJudge
from judge.endpoints.pool import EndpointPool, JudgingOptions
from judge.endpoints.retrying import RetryingJudge
from judge.errors import JudgeUnavailableError
from judge.evaluate.cache import FileCache, MemoryCache, VerdictCache
from judge.evaluate.prices import ListedPrice, ModelPrice, Price, PriceTable, listed_price
from judge.metric import Metric
from judge.text.printable import printable
from streams.errors import SettingsError
from streams.judging.agent import PatientJudge
from streams.settings.addresses import sends_key_in_the_clear
from streams.settings.judge import (
    EndpointSettings,
    JudgeSettings,
    LimitSettings,
    default_endpoints,
)
from streams.settings.metrics import MetricSettings

_log = structlog.stdlib.get_logger(__name__)

PATIENCE: Final = Patience()
ENDPOINT_LIMITS: Final = ("max_in_flight", "requests_per_minute", "tokens_per_minute", "context_tokens")


def asked_by(metric: MetricSettings, endpoints: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names of a metric's endpoints, in order of preference; `endpoints`: names and models."""
    # Names in the settings have no slash.
    models = {name: model for name, model in endpoints if "/" not in name}
    names = metric.asked or tuple(models)
    if metric.panel is not None and not metric.asked:
        names = names[:1]
    wanted = product(names, metric.models)
    return tuple(one if model in (None, models.get(one)) else f"{one}/{model}" for one, model in wanted)


def voters(metric: MetricSettings, endpoints: Sequence[EndpointSettings]) -> tuple[EndpointSettings, ...]:
    """Return the endpoint of each call for one answer: the first one, or a panel's, repeated per sample."""
    if metric.is_code:
        return ()
    known = {one.name: one for one in endpoints}
    asked = [known[name] for name in asked_by(metric, [(one.name, one.model) for one in endpoints])]
    return tuple(asked[:1] if metric.panel is None else asked * metric.panel.samples)


async def chosen_endpoint(
    env: Mapping[str, str], *, base_url: str | None = None, model: str | None = None
) -> EndpointSettings | None:
    """Return the endpoint of options, else the environment; without a model the only one at the address."""
    options = {"OPENAI_BASE_URL": base_url, "OPENAI_MODEL": model}
    values = {**env, **{name: value for name, value in options.items() if value is not None}}
    is_open = bool(values.get("OPENAI_BASE_URL", "").strip()) and not values.get("OPENAI_MODEL", "").strip()
    endpoints = default_endpoints({**values, "OPENAI_MODEL": "?"} if is_open else values)
    if not endpoints or not is_open:
        return endpoints[0] if endpoints else None
    (endpoint,) = endpoints
    url = f"{endpoint.base_url}/models"
    try:
        key = values.get("OPENAI_API_KEY", "").strip()
        listed = await list_models(endpoint.base_url, key, timeout_seconds=15.0)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        told = f"{url} does not answer ({type(error).__name__}); check the address and that it runs"
        raise JudgeUnavailableError(told) from error
    if listed.status != 200:
        told = f"{url} answers with status {listed.status}; set OPENAI_MODEL to the model's name"
        raise JudgeUnavailableError(told)
    models = listed.names or ()
    if len(models) == 1:
        return endpoint.model_copy(update={"model": models[0]})
    choices = ", ".join(printable(one, 100) for one in models[:20]) or "none"
    what = f"is required, {endpoint.base_url} serves {len(models)} models ({choices}); set it to one"
    raise SettingsError([f"OPENAI_MODEL: {what}"])


def build_prices(endpoints: Iterable[EndpointSettings]) -> PriceTable:
    """Return the prices of endpoints: from the settings, else published ones; unknown ones are logged."""
    prices: dict[str, Price] = {}
    for endpoint in endpoints:
        price = price_of(endpoint)
        if price is not None:
            prices[endpoint.name] = price
        elif endpoint.model != OFFLINE_MODEL:
            told = "no known price: results have no cost; set usd_per_million_tokens"
            _log.warning(told, endpoint=endpoint.name, model=endpoint.model)
    return PriceTable(endpoints=prices)


def price_of(endpoint: EndpointSettings) -> Price | None:
    usd = endpoint.usd_per_million_tokens
    price: ModelPrice | ListedPrice | None = None
    if usd is not None:
        price = ModelPrice(input_usd=usd.input, output_usd=usd.output, cached_usd=usd.cached)
    elif endpoint.model != OFFLINE_MODEL:
        price = listed_price(endpoint.model, base_url=endpoint.base_url)
    lane = endpoint.lane
    if price is None or lane is None or lane.tier is None:
        return price
    return replace(price, factor=lane.price_factor)


def may_cost(endpoint: EndpointSettings) -> bool:
    """Return whether a call may cost money: on another machine, and not with a price of 0."""
    usd = endpoint.usd_per_million_tokens
    is_free = usd is not None and not (usd.input or usd.output or usd.cached)
    near = is_loopback(urlsplit(endpoint.base_url).hostname or "")
    return not (is_free or near or endpoint.model == OFFLINE_MODEL)


def check_prices(
    judge: JudgeSettings, endpoints: Sequence[EndpointSettings], sampling: LimitSettings | None = None
) -> None:
    """Check that paid endpoints have a budget, and that a budget in dollars has known prices."""
    limits = [limit for _, limit in judge.budget.limits] + ([] if sampling is None else [sampling])
    paid = [one for one in endpoints if price_of(one) is not None and may_cost(one)]
    if paid and not limits and not judge.budget.unlimited:
        what = f"is required, because {paid[0].model} at {paid[0].base_url} is paid per token"
        remedy = "set usd_per_day or calls_per_day, or write budget: none"
        raise SettingsError([f"judge.budget: {what}; {remedy}"])
    unknown = [one.name for one in endpoints if one.model != OFFLINE_MODEL and price_of(one) is None]
    if unknown and any(limit.usd_per_day is not None for limit in limits):
        raise SettingsError([_unpriced(name) for name in unknown])


def _unpriced(name: str) -> str:
    what = "required with a budget in dollars, because no price is known for this model at this address"
    if "/" in name:  # a metric's own model
        remedy = "add an endpoint with this model and usd_per_million_tokens, or limit calls instead"
        return f"metrics.*.model ({name}): a price is {what}; {remedy}"
    return f"judge.endpoints ({name}).usd_per_million_tokens: is {what}; set it, or limit calls instead"


def judge_endpoints(
    judge: JudgeSettings, env: Mapping[str, str], metrics: Mapping[str, MetricSettings] | None = None
) -> tuple[EndpointSettings, ...]:
    """Return the endpoints, in order of preference, then one for each model that a metric sets instead.

    That has the address, key and limits of its endpoint, but its own breaker and its model's published price.
    """
    endpoints = judge.endpoints or default_endpoints(env)
    wanted = (metrics or {}).values()
    if not endpoints and not (wanted and all(metric.is_code for metric in wanted)):
        what = "add one, or set OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL)"
        raise SettingsError([f"judge.endpoints: names no endpoint; {what}"])
    found = {one.name: one for one in endpoints}
    for metric in [one for given in wanted for one in (given, given.cheap) if one is not None]:
        for name in asked_by(metric, [(one.name, one.model) for one in endpoints]):
            endpoint, _, model = name.partition("/")
            if name in found or endpoint not in found:
                continue
            update: dict[str, object] = {"name": name, "model": model}
            update |= {"usd_per_million_tokens": None, "context_tokens": None}
            if metric.embeds:
                update["parameters"] = {}  # the endpoint's parameters are for sampling
            found[name] = found[endpoint].model_copy(update=update)
    return tuple(found.values())


def open_pool(
    judge: JudgeSettings,
    endpoints: Sequence[EndpointSettings],
    *,
    chat: ChatClient | None = None,
    prices: PriceTable | None = None,
    observer: EndpointObserver | None = None,
    cached: bool = True,
    confirm_seconds: float = CONFIRM_SECONDS,
) -> EndpointPool:
    opened = [] if chat is None else [EndpointOptions(chat, borrowed=True)]
    for one in endpoints if chat is None else ():
        tier = {} if one.lane is None or one.lane.tier is None else {"service_tier": one.lane.tier}
        opened.append(
            EndpointOptions(
                open_chat(one, judge),
                parameters={**tier, **one.parameters},
                **{name: getattr(one, name) for name in ENDPOINT_LIMITS},
            )
        )
    observer = observer or EndpointObserver()
    patience = replace(PATIENCE, timeout_seconds=judge.timeout_seconds, confirm_seconds=confirm_seconds)
    options = JudgingOptions(judge.max_in_flight, patience, judge.max_output_tokens)
    cache: VerdictCache | None = None
    most, file = judge.cache.max_entries, judge.cache.file
    if cached and most:
        cache = MemoryCache(most) if file is None else FileCache(file, most)
    return EndpointPool(opened, options, prices=prices, cache=cache, observer=observer)


def metric_judges(
    pool: EndpointPool,
    metrics: Mapping[str, Metric],
    settings: Mapping[str, MetricSettings],
    *,
    is_live: bool = False,
) -> dict[str, PatientJudge]:
    """Return each metric's judge; only live traffic is judged in two phases."""
    models = [(one.name, one.model) for one in pool.endpoints]
    judges: dict[str, PatientJudge] = {}
    for name, metric in metrics.items():
        wanted = settings.get(name, MetricSettings())
        asked, own = asked_by(wanted, models), wanted.parameters
        if wanted.panel is not None:
            samples = wanted.panel.samples
            judges[name] = pool.panel(metric, endpoints=asked, parameters=own, samples=samples)
            continue
        judges[name] = strong = pool.judge(metric, endpoints=asked, parameters=own)
        if is_live and wanted.two_phase is not None and wanted.cheap is not None:
            cheap = pool.judge(metric, endpoints=asked_by(wanted.cheap, models), parameters=own)
            if isinstance(cheap, RetryingJudge) and isinstance(strong, RetryingJudge):
                judges[name] = TwoPhaseJudge(cheap, strong, share=wanted.two_phase.strong_share)
    return judges


def open_chat(endpoint: EndpointSettings, judge: JudgeSettings) -> ChatClient:
    """Open the connection to an endpoint; call, use and close it in one event loop."""
    key = endpoint.read_key()
    if sends_key_in_the_clear(endpoint.base_url, has_key=key is not None):
        _log.warning("the API key is sent unencrypted; use an https address", endpoint=endpoint.name)
    return OpenAIChat(
        endpoint=endpoint.name,
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_key="" if key is None else key.get_secret_value(),
        timeout_seconds=judge.timeout_seconds,
        # Further connections for probes while all others hang.
        max_connections=min(judge.max_in_flight, endpoint.max_in_flight or judge.max_in_flight) + MOST_PROBES,
    )
