"""Open the judging stack from the settings: for a worker, a file or a check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog

from judge.chat import ChatClient
from judge.endpoints.clients import NOBODY
from judge.endpoints.endpoint import CONFIRM_SECONDS, MOST_PROBES, EndpointObserver, EndpointOptions, Patience
from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.stack import JudgingOptions, JudgingStack
from judge.metric import Metric
from judge.verdict.cache import MemoryCache, VerdictCache
from judge.verdict.cache_file import FileCache
from judge.verdict.pricing import PriceTable
from streams.errors import SettingsError
from streams.judging.agent import PatientJudge
from streams.judging.asked import asked_by, with_own_models
from streams.settings import (
    CacheSettings,
    EndpointSettings,
    JudgeSettings,
    MetricSettings,
    default_endpoints,
    read_secret,
)
from streams.settings.addresses import sends_key_in_the_clear

_log = structlog.stdlib.get_logger(__name__)


def judge_endpoints(
    judge: JudgeSettings,
    env: Mapping[str, str],
    metrics: Mapping[str, MetricSettings] | None = None,
) -> tuple[EndpointSettings, ...]:
    """Return the endpoints, in order of preference.

    Args:
        judge: The section `judge`.
        env: Environment variables, for the usual OPENAI_* ones.
        metrics: The metrics to judge; if all of them are code, no endpoint is needed. A metric's own model
            adds an endpoint.

    Raises:
        SettingsError: There is no endpoint.
    """
    endpoints = judge.endpoints or default_endpoints(env)
    if not endpoints and metrics and all(metric.is_code for metric in metrics.values()):
        return ()
    if not endpoints:
        raise SettingsError(
            [
                (
                    "judge.endpoints: names no endpoint; add one, or set OPENAI_API_KEY (and "
                    "OPENAI_BASE_URL, OPENAI_MODEL)"
                )
            ]
        )
    return with_own_models(endpoints, (metrics or {}).values())


def open_stack(
    judge: JudgeSettings,
    endpoints: Sequence[EndpointSettings],
    *,
    chat: ChatClient | None = None,
    prices: PriceTable | None = None,
    observer: EndpointObserver | None = None,
    cached: bool = True,
    confirm_seconds: float = CONFIRM_SECONDS,
) -> JudgingStack:
    """Return the judging stack, an asynchronous context manager to be used in this event loop.

    Args:
        judge: The section `judge`.
        endpoints: In order of preference; empty if all metrics are code.
        chat: The judge to use instead of the endpoints; the caller must close it.
        prices: Prices of the endpoints' tokens.
        observer: Notified of calls and outages.
        cached: Whether to use cached verdicts.
        confirm_seconds: How long an endpoint that never answered must refuse neutral events until its
            configuration counts as wrong.

    Raises:
        SettingsError: A key is missing.
        JudgeConfigurationError: An endpoint, or the file of the verdict cache, cannot be used.
    """
    asked = (
        [_open_endpoint(endpoint, judge) for endpoint in endpoints]
        if chat is None
        else [EndpointOptions(chat, borrowed=True)]
    ) or [EndpointOptions(NOBODY, borrowed=True)]
    observer = observer or EndpointObserver()
    cache = open_cache(judge.cache, observer.cache_failed) if cached else None
    return JudgingStack(
        asked, _options(judge, confirm_seconds), prices=prices, cache=cache, observer=observer
    )


def metric_judges(
    stack: JudgingStack, metrics: Mapping[str, Metric], settings: Mapping[str, MetricSettings]
) -> dict[str, PatientJudge]:
    """Return each metric's judge, with the endpoints and parameters of its settings.

    Args:
        stack: The judging stack.
        metrics: Metrics by name.
        settings: Settings by name; a metric without settings uses all endpoints.
    """
    return {name: _metric_judge(stack, metric, settings.get(name)) for name, metric in metrics.items()}


def _metric_judge(stack: JudgingStack, metric: Metric, wanted: MetricSettings | None) -> PatientJudge:
    if wanted is None:
        return stack.judge(metric)
    asked = asked_by(wanted, [(one.chat.endpoint, one.chat.model) for one in stack.endpoints])
    if wanted.panel is None:
        return stack.judge(metric, endpoints=asked, parameters=wanted.parameters)
    return stack.panel(
        metric,
        endpoints=asked,
        parameters=wanted.parameters,
        samples=wanted.panel.samples,
    )


def _open_endpoint(endpoint: EndpointSettings, judge: JudgeSettings) -> EndpointOptions:
    return EndpointOptions(
        open_chat(endpoint, judge),
        max_in_flight=endpoint.max_in_flight,
        requests_per_minute=endpoint.requests_per_minute,
        tokens_per_minute=endpoint.tokens_per_minute,
        call_seconds=endpoint.timeout_seconds,
        parameters=endpoint.parameters,
        context_tokens=endpoint.context_tokens,
    )


def _options(judge: JudgeSettings, confirm_seconds: float) -> JudgingOptions:
    return JudgingOptions(
        max_in_flight=judge.max_in_flight,
        patience=Patience(
            timeout_seconds=judge.timeout_seconds,
            first_wait_seconds=judge.retry.first_wait_seconds,
            longest_wait_seconds=judge.retry.longest_wait_seconds,
            breaker_failures=judge.breaker.failures,
            longest_breaker_seconds=judge.breaker.longest_pause_seconds,
            confirm_seconds=confirm_seconds,
        ),
        max_output_tokens=judge.max_output_tokens,
        repair_attempts=judge.repair_attempts,
        verification_seconds=judge.verification_seconds,
    )


def open_chat(endpoint: EndpointSettings, judge: JudgeSettings) -> ChatClient:
    """Open the connection to an endpoint; call, use and close it in one event loop.

    Raises:
        SettingsError: Its key is missing.
        JudgeConfigurationError: The endpoint cannot be used.
    """
    key = read_secret(endpoint.api_key, f"judge.endpoints ({endpoint.name}).api_key")
    if sends_key_in_the_clear(endpoint.base_url, has_key=key is not None):
        _log.warning("the API key is sent unencrypted; use an https address", endpoint=endpoint.name)
    return OpenAIChat(
        endpoint=endpoint.name,
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_key="" if key is None else key.get_secret_value(),
        timeout_seconds=min(judge.timeout_seconds, endpoint.timeout_seconds or judge.timeout_seconds),
        # Further connections for probes while all others hang.
        max_connections=min(judge.max_in_flight, endpoint.max_in_flight or judge.max_in_flight) + MOST_PROBES,
    )


def open_cache(settings: CacheSettings, on_failure: Callable[[], None]) -> VerdictCache | None:
    """Open the verdict cache; None if it is off.

    Args:
        settings: The section `judge.cache`.
        on_failure: Called for each failed read or write.

    Raises:
        JudgeConfigurationError: Its file cannot be used.
    """
    if not settings.max_entries:
        return None
    if settings.file is None:
        return MemoryCache(settings.max_entries)
    return FileCache(settings.file, settings.max_entries, on_failure)
