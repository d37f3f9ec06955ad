"""From settings to the metrics and the judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import structlog

from judge.chat import OFFLINE_MODEL, ChatClient
from judge.endpoint.openai_chat import OpenAIChat
from judge.errors import PromptPackError
from judge.metric import Metric
from judge.metrics import registry
from judge.metrics.packs.pack import PromptPack, load_pack
from judge.pool.guarded_chat import GuardedChat
from judge.pool.hedging import HedgedChat
from judge.pool.observer import PoolObserver
from judge.pool.pool import Endpoint, EndpointPool, Patience
from judge.pool.reliable import ReliableJudge
from judge.text.redaction import Redactor
from judge.verdict.cache import MemoryCache, VerdictCache
from judge.verdict.cache_file import FileCache
from judge.verdict.evaluator import Judge
from judge.verdict.guarded_metric import GuardedMetric, TextLimits
from judge.verdict.price_list import listed_price
from judge.verdict.pricing import ModelPrice, Price, PriceTable
from streams.errors import SettingsError
from streams.judging.from_settings import budget_limits
from streams.settings import (
    CacheSettings,
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
    if name in registry.BUILT_IN:
        return registry.build_metric(name, mode=settings.mode, pack=pack)
    if pack is None:
        raise SettingsError([f"metrics.{name}: is not a built-in metric; set prompt_pack or rename it"])
    score_range = settings.score_range or pack.score_range
    if score_range is None:
        raise SettingsError(
            [
                f"metrics.{name}.score_range: is required, for {settings.prompt_pack} names none; set [lowest, highest]"
            ]
        )
    return registry.build_metric(name, pack=pack, score_range=score_range)


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
    return {
        name: guarded(build_metric(name, metric), settings.judge) for name, metric in settings.metrics.items()
    }


def guarded(metric: Metric, judge: JudgeSettings) -> Metric:
    """Bound and redact a metric's texts as the section `judge` says."""
    limits = TextLimits(question=judge.max_question_chars, answer=judge.max_answer_chars)
    return GuardedMetric(metric, redactor=Redactor(judge.redact), limits=limits)


def judge_endpoints(judge: JudgeSettings, env: Mapping[str, str]) -> tuple[EndpointSettings, ...]:
    """Give the endpoints that may be asked, in order of preference.

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
    return endpoints


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
        timeout_seconds=min(judge.timeout_seconds, endpoint.timeout_seconds or judge.timeout_seconds),
        # One more, to find out whether it answers while all others hang.
        max_connections=min(judge.max_in_flight, endpoint.max_in_flight or judge.max_in_flight) + 1,
    )


def open_pool(
    chats: Sequence[ChatClient],
    judge: JudgeSettings,
    endpoints: Sequence[EndpointSettings] = (),
    *,
    observer: PoolObserver | None = None,
) -> EndpointPool:
    """Put endpoints behind their limits and breakers.

    Args:
        chats: The open endpoints, in order of preference.
        judge: The section `judge`.
        endpoints: Their settings, in the same order; empty where there are none.
        observer: Hears of calls and outages.
    """
    limits = {endpoint.name: endpoint for endpoint in endpoints}
    return EndpointPool(
        [_endpoint(chat, limits.get(chat.endpoint)) for chat in chats],
        max_in_flight=judge.max_in_flight,
        patience=Patience(
            timeout_seconds=judge.timeout_seconds,
            first_wait_seconds=judge.retry.first_wait_seconds,
            longest_wait_seconds=judge.retry.longest_wait_seconds,
            breaker_failures=judge.breaker.failures,
            longest_breaker_seconds=judge.breaker.longest_pause_seconds,
        ),
        observer=observer,
    )


def _endpoint(chat: ChatClient, settings: EndpointSettings | None) -> Endpoint:
    if settings is None:
        return Endpoint(chat)
    return Endpoint(
        chat,
        max_in_flight=settings.max_in_flight,
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        call_seconds=settings.timeout_seconds,
    )


def build_pooled_judges(
    metrics: Mapping[str, Metric],
    pool: EndpointPool,
    judge: JudgeSettings,
    endpoints: Sequence[EndpointSettings] = (),
    *,
    prices: PriceTable | None = None,
    cache: VerdictCache | None = None,
) -> dict[str, ReliableJudge]:
    """Build a judge for each metric, over all endpoints of a pool.

    Args:
        metrics: By name.
        pool: The endpoints.
        judge: The section `judge`.
        endpoints: Their settings; empty where there are none.
        prices: What tokens cost at them.
        cache: Verdicts given before.
    """
    settings = {endpoint.name: endpoint for endpoint in endpoints}
    window = smallest_window(endpoints)
    by_endpoint = {
        chat.endpoint: build_judges(
            metrics,
            _hedged(chat, judge),
            judge,
            settings.get(chat.endpoint),
            window,
            prices=prices,
            cache=cache,
        )
        for chat in pool.chats
    }
    return {
        name: ReliableJudge({endpoint: judges[name] for endpoint, judges in by_endpoint.items()}, pool)
        for name in metrics
    }


def _hedged(chat: GuardedChat, judge: JudgeSettings) -> ChatClient:
    return (
        chat
        if judge.hedge_after_seconds is None
        else HedgedChat(chat, after_seconds=judge.hedge_after_seconds)
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


def check_prices(judge: JudgeSettings, endpoints: Iterable[EndpointSettings]) -> None:
    """See to it that a budget in dollars can be kept.

    Raises:
        SettingsError: An endpoint's price is not known, so that nobody could tell what is spent.
    """
    if not budget_limits(judge).in_usd:
        return
    unknown = [one.name for one in endpoints if one.model != OFFLINE_MODEL and price_of(one) is None]
    if unknown:
        raise SettingsError(
            [
                f"judge.endpoints ({name}).usd_per_million_tokens: is required with a budget in dollars, for no price of this "
                "model at this address is known; set it, or limit calls instead"
                for name in unknown
            ]
        )


def open_cache(settings: CacheSettings) -> VerdictCache | None:
    """Open the verdict cache; None where it is off.

    Raises:
        JudgeConfigurationError: Its file cannot be used.
    """
    if not settings.max_entries:
        return None
    if settings.file is None:
        return MemoryCache(settings.max_entries)
    return FileCache(settings.file, settings.max_entries)


def smallest_window(endpoints: Iterable[EndpointSettings]) -> int | None:
    """The smallest context window that any of the endpoints names, so that what is cut does not depend on who answers."""
    return min((one.context_tokens for one in endpoints if one.context_tokens is not None), default=None)


def build_judges(
    metrics: Mapping[str, Metric],
    chat: ChatClient,
    judge: JudgeSettings,
    endpoint: EndpointSettings | None = None,
    context_tokens: int | None = None,
    *,
    prices: PriceTable | None = None,
    cache: VerdictCache | None = None,
) -> dict[str, Judge]:
    """Build a judge for each metric, all at one endpoint.

    Args:
        metrics: By name.
        chat: Whom to ask.
        judge: The section `judge`.
        endpoint: Its settings, for its parameters; None where there are none.
        context_tokens: The context window to keep to, where it is smaller than the endpoint's own.
        prices: What tokens cost there.
        cache: Verdicts given before.
    """
    windows = [] if endpoint is None else [endpoint.context_tokens]
    window = min((size for size in (*windows, context_tokens) if size is not None), default=None)
    return {
        name: Judge(
            metric,
            chat,
            prices=prices,
            parameters=None if endpoint is None else endpoint.parameters,
            max_output_tokens=judge.max_output_tokens,
            context_tokens=window,
            repair_attempts=judge.repair_attempts,
            cache=cache,
        )
        for name, metric in metrics.items()
    }
