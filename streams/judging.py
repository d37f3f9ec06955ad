"""From settings to the metrics and the judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from judge.chat import ChatClient
from judge.coverage import Coverage
from judge.custom import PackMetric
from judge.errors import PromptPackError
from judge.evaluator import Judge
from judge.metric import Metric
from judge.offline import OFFLINE_MODEL
from judge.openai_chat import OpenAIChat
from judge.packs import PromptPack, load_pack
from judge.price_list import listed_price
from judge.pricing import ModelPrice, Price, PriceTable
from judge.relevance import Relevance
from streams.errors import SettingsError
from streams.settings import (
    EndpointSettings,
    JudgeSettings,
    MetricSettings,
    Settings,
    default_endpoints,
    resolve_api_key,
)

_log = structlog.stdlib.get_logger(__name__)


def build_metric(name: str, settings: MetricSettings) -> Metric:
    """Build one metric.

    Args:
        name: Its name; `coverage` and `relevance` are built in.
        settings: Its settings.

    Raises:
        SettingsError: Its prompt pack cannot be used, or nothing says its range.
    """
    pack = _pack(name, settings)
    if name == "coverage":
        return Coverage(mode=settings.mode or "evidence", pack=pack)
    if name == "relevance":
        return Relevance(mode=settings.mode or "evidence", pack=pack)
    if pack is None:
        raise SettingsError([f"metrics.{name}: is not a built-in metric; set prompt_pack or rename it"])
    score_range = settings.score_range or pack.score_range
    if score_range is None:
        raise SettingsError(
            [
                f"metrics.{name}.score_range: is required, for {settings.prompt_pack} names none; set [lowest, highest]"
            ]
        )
    return PackMetric(name, pack, score_range=score_range)


def _pack(name: str, settings: MetricSettings) -> PromptPack | None:
    if settings.prompt_pack is None:
        return None
    try:
        pack = load_pack(settings.prompt_pack)
    except PromptPackError as error:
        raise SettingsError([f"metrics.{name}.prompt_pack: {error}"]) from error
    for warning in pack.warnings:
        _log.warning("prompt pack", metric=name, file=str(settings.prompt_pack), warning=warning)
    return pack


def build_metrics(settings: Settings) -> dict[str, Metric]:
    """Build all metrics that the settings name.

    Raises:
        SettingsError: With the first that cannot be built.
    """
    return {name: build_metric(name, metric) for name, metric in settings.metrics.items()}


def first_endpoint(judge: JudgeSettings, env: Mapping[str, str]) -> EndpointSettings:
    """Give the endpoint that is asked.

    Args:
        judge: The section `judge`.
        env: Environment variables, for the usual OPENAI_* ones.

    Raises:
        SettingsError: There is none.
    """
    endpoints = judge.endpoints or default_endpoints(env)
    if not endpoints:
        raise SettingsError(
            [
                "judge.endpoints: names no judge; add one, or set OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL)"
            ]
        )
    if len(endpoints) > 1:
        _log.warning(
            "only the first judge endpoint is asked", endpoint=endpoints[0].name, configured=len(endpoints)
        )
    return endpoints[0]


def open_chat(endpoint: EndpointSettings, judge: JudgeSettings) -> ChatClient:
    """Open the connection to an endpoint; to be called, used and closed in one event loop.

    Raises:
        SettingsError: Its key is not where the settings say.
        JudgeConfigurationError: The endpoint cannot work as configured.
    """
    key = resolve_api_key(endpoint)
    return OpenAIChat(
        endpoint=endpoint.name,
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_key="" if key is None else key.get_secret_value(),
        timeout_seconds=judge.timeout_seconds,
        max_connections=judge.max_in_flight,
    )


def build_prices(endpoints: Iterable[EndpointSettings]) -> PriceTable:
    """Collect the prices of endpoints: the settings' own, else the published ones.

    One whose price is not known is named in the log; its results carry no cost.
    """
    prices: dict[str, Price] = {}
    for endpoint in endpoints:
        price = price_of(endpoint)
        if price is not None:
            prices[endpoint.name] = price
        elif endpoint.model != OFFLINE_MODEL:
            _log.warning(
                "no price is known, results carry no cost; set usd_per_million_tokens",
                endpoint=endpoint.name,
                model=endpoint.model,
            )
    return PriceTable(endpoints=prices)


def price_of(endpoint: EndpointSettings) -> Price | None:
    """Find what an endpoint's tokens cost; None where nobody says."""
    usd = endpoint.usd_per_million_tokens
    if usd is not None:
        return ModelPrice(input_usd=usd.input, output_usd=usd.output, cached_usd=usd.cached)
    if endpoint.model == OFFLINE_MODEL:
        return None
    return listed_price(endpoint.model, base_url=endpoint.base_url)


def smallest_window(endpoints: Iterable[EndpointSettings]) -> int | None:
    """The smallest context window that any of the endpoints names, so that what is cut does not depend on who answers."""
    return min((one.context_tokens for one in endpoints if one.context_tokens is not None), default=None)


def build_judges(
    metrics: Mapping[str, Metric],
    chat: ChatClient,
    judge: JudgeSettings,
    endpoint: EndpointSettings | None = None,
) -> dict[str, Judge]:
    """Build a judge for each metric, all at one endpoint.

    Args:
        metrics: By name.
        chat: Whom to ask.
        judge: The section `judge`.
        endpoint: Its settings, for prices and parameters; None where there are none.
    """
    prices = build_prices(() if endpoint is None else (endpoint,))
    return {
        name: Judge(
            metric,
            chat,
            prices=prices,
            parameters=None if endpoint is None else endpoint.parameters,
            max_output_tokens=judge.max_output_tokens,
            context_tokens=smallest_window(judge.endpoints if endpoint is None else (endpoint,)),
            repair_attempts=judge.repair_attempts,
        )
        for name, metric in metrics.items()
    }
