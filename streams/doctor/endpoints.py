"""Tests the judge's endpoints: connection, key, model, and a verdict."""

from __future__ import annotations

import asyncio
import difflib
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from judge.chat import ChatClient, ChatRequest
from judge.endpoint.models import ModelList, list_models
from judge.endpoint.openai_chat import OpenAIChat
from judge.errors import JudgeConfigurationError, JudgeError, JudgeUnavailableError
from judge.pool.stack import smallest_window
from judge.text.printable import printable
from judge.verdict.evaluator import Judge
from judge.verdict.neutral import neutral_task
from schemas import Failed, JudgeTask, Scored, Unscored, Usage
from streams.doctor.clock import clock_finding, skew_of
from streams.doctor.finding import CheckName, Finding, failed, not_tried, ok, warning
from streams.errors import SettingsError
from streams.judging.asked import asked_by
from streams.judging.metrics import build_metrics
from streams.judging.prices import build_prices
from streams.judging.stack import judge_endpoints, open_stack
from streams.settings import EndpointSettings, Settings, read_secret

MAX_NAMES: Final = 10


@dataclass(slots=True)
class Listed:
    """An endpoint's answer to a request for its models.

    Args:
        finding: The result of the request.
        go_on: Whether to try a verdict.
        skew_seconds: This machine's clock minus the endpoint's; None if it reports no time.
    """

    finding: Finding
    go_on: bool = True
    skew_seconds: float | None = None


@dataclass(slots=True)
class EndpointExaminer:
    """Tests all endpoints; a successful verdict, which costs money, is not repeated.

    Args:
        settings: The settings.
        env: Environment variables.
        timeout_seconds: Time limit of a list of models; a verdict has judge.timeout_seconds.
        now: The wall clock, in seconds since 1970.
    """

    settings: Settings
    env: Mapping[str, str]
    timeout_seconds: float
    now: Callable[[], float] = time.time
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    _judged: dict[tuple[str, str], Finding] = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """Tokens used so far."""
        return Usage(
            input_tokens=self.input_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
        )

    async def examine(self, checks: Collection[CheckName]) -> list[Finding]:
        """Run the requested checks of `judge`, `verdict` and `clock`."""
        wanted: tuple[CheckName, ...] = tuple(one for one in ("judge", "verdict", "clock") if one in checks)
        if not wanted:
            return []
        try:
            endpoints = judge_endpoints(self.settings.judge, self.env, self.settings.metrics)
        except SettingsError:
            return [not_tried(one, "", "no judge is set, see secrets") for one in wanted]
        listed = await asyncio.gather(*(self._list(endpoint) for endpoint in endpoints))
        found = [one.finding for one in listed] if "judge" in checks else []
        if "verdict" in checks:
            for endpoint, one in zip(endpoints, listed, strict=True):
                found += await self._verdicts(endpoint, one, endpoints)
        if "clock" in checks:
            found.append(
                clock_finding(
                    [(it.name, one.skew_seconds) for it, one in zip(endpoints, listed, strict=True)]
                )
            )
        return found

    # Models

    async def _list(self, endpoint: EndpointSettings) -> Listed:
        try:
            key = read_secret(endpoint.api_key, f"judge.endpoints ({endpoint.name}).api_key", self.env)
        except SettingsError:
            return Listed(
                not_tried("judge", endpoint.name, "its API key is missing, see secrets"), go_on=False
            )
        text = "" if key is None else key.get_secret_value()
        if not (text.isascii() and text.isprintable()):
            return Listed(_no_header(endpoint), go_on=False)
        started = self.now()
        try:
            listed = await list_models(endpoint.base_url, text, timeout_seconds=self.timeout_seconds)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return Listed(_unreachable(endpoint, error), go_on=False)
        finished = self.now()
        finding, go_on = _answered(endpoint, listed, has_key=key is not None, seconds=finished - started)
        return Listed(finding, go_on, skew_of(listed.date, (started + finished) / 2))

    # Verdicts

    async def _verdicts(
        self, endpoint: EndpointSettings, listed: Listed, endpoints: Sequence[EndpointSettings]
    ) -> list[Finding]:
        subject = f"{endpoint.name}, "
        # Each metric at its own endpoints.
        known = {one.name: one for one in endpoints}
        wanted = {
            name: asked_by(metric, [(one.name, one.model) for one in endpoints])
            for name, metric in self.settings.metrics.items()
            if not metric.is_code
        }
        wanted = {name: asked for name, asked in wanted.items() if endpoint.name in asked}
        if not listed.go_on:
            return [not_tried("verdict", subject + name, "the endpoint is not usable") for name in wanted]
        try:
            metrics = build_metrics(self.settings)
            prices = build_prices((endpoint,))
            # A cached verdict would test nothing.
            stack = open_stack(self.settings.judge, (endpoint,), prices=prices, cached=False)
        except (SettingsError, JudgeConfigurationError) as error:
            return [not_tried("verdict", endpoint.name, f"it is not usable: {printable(str(error), 300)}")]
        async with stack:
            found = []
            for name, asked in wanted.items():
                judged = self._judged.get((endpoint.name, name))
                judge = stack.evaluator(
                    metrics[name],
                    parameters=self.settings.metrics[name].parameters,
                    # As in a worker.
                    context_tokens=smallest_window(known[one].context_tokens for one in asked),
                )
                found.append(judged or await self._verdict(endpoint, judge, stack.endpoints[0].chat))
            return found

    async def _verdict(self, endpoint: EndpointSettings, judge: Judge, chat: ChatClient) -> Finding:
        name = judge.metric.name
        task = neutral_task(judge.metric, now=datetime.now(UTC))
        subject = f"{endpoint.name}, {name}"
        try:
            result = await judge.judge(task)
        except JudgeUnavailableError as error:
            return failed(
                "verdict", subject, _said(error), "check the endpoint's health and limits", may_pass=True
            )
        except JudgeConfigurationError as error:
            what, _, remedy = str(error).partition(". ")
            told = f"{what}: {error.said}" if error.said else what
            return failed("verdict", subject, printable(told, 500), remedy or "check the endpoint's settings")
        self._count(result)
        # The reply may be shown: it can only quote the doctor's own sample.
        said = chat.said if isinstance(chat, OpenAIChat) else ""
        finding = _judged(subject, result, judge.metric.score_range, _form(judge, task, chat), said)
        if finding.outcome != "failed":
            self._judged[endpoint.name, name] = finding
        return finding

    def _count(self, result: Scored | Unscored | Failed) -> None:
        self.input_tokens += result.usage.input_tokens
        self.cached_tokens += result.usage.cached_tokens
        self.output_tokens += result.usage.output_tokens
        if result.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + result.cost_usd


def _form(judge: Judge, task: JudgeTask, chat: ChatClient) -> str | None:
    """Return the requested response format; None if the metric's prompt alone defines it."""
    prepared = judge.metric.prepare(task)
    if (
        not isinstance(chat, OpenAIChat)
        or not isinstance(prepared, ChatRequest)
        or prepared.response_schema is None
    ):
        return None
    return chat.response_format.value


def _judged(
    subject: str,
    result: Scored | Unscored | Failed,
    score_range: tuple[float, float],
    form: str | None,
    said: str,
) -> Finding:
    usage, seconds = result.usage, result.times.judge_seconds
    spent = [f"{usage.input_tokens} tokens in, {usage.output_tokens} out"]
    spent.append("no price known" if result.cost_usd is None else f"{result.cost_usd:.6f} USD")
    if seconds is not None:
        spent.append(f"{seconds:.2f} s")
    if form is not None:
        spent.append(f"requested by {form}")
    if result.judge is not None and result.judge.tries > 1:
        spent.append(f"repaired at attempt {result.judge.tries}")
    told = "; ".join(spent)
    match result:
        case Scored():
            low, high = score_range
            return ok("verdict", subject, f"{result.amount:g} of {low:g} to {high:g} ({told})")
        case Unscored():
            return warning(
                "verdict",
                subject,
                f"the sample was not scored: {result.reason} ({told})",
                "check the metric's settings and prompts",
            )
        case Failed():
            return failed(
                "verdict",
                subject,
                f"{result.error_type}: {printable(result.detail, 300)} ({told})"
                + (f". Reply: {printable(said, 300)}" if said else ""),
                "try a more capable model, mode verbatim, or correct the prompt pack",
            )


def _no_header(endpoint: EndpointSettings) -> Finding:
    return failed(
        "judge",
        endpoint.name,
        "the API key contains characters that are invalid in an HTTP header",
        "check the secret for line breaks or quotes",
    )


def _said(error: Exception) -> str:
    """Return the error with the endpoint's reply, which can only quote the doctor's own sample."""
    said = error.said if isinstance(error, JudgeError) else ""
    return printable(f"{error}. Reply: {said}" if said and said not in str(error) else str(error), 500)


def _unreachable(endpoint: EndpointSettings, error: BaseException) -> Finding:
    host = urlsplit(endpoint.base_url).netloc
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return failed(
            "judge",
            endpoint.name,
            f"TLS with {host} fails: {_said(error)}",
            "check base_url, and this machine's certificate authorities (SSL_CERT_FILE)",
        )
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        why = "has no address (DNS)"
    elif isinstance(error, TimeoutError):
        why = "does not answer in time"
    elif isinstance(error, aiohttp.ClientConnectorError):
        code = error.os_error.errno
        why = f"cannot be reached ({error.os_error if code is None else os.strerror(code)})"
    else:
        why = f"closes the connection ({type(error).__name__})"
    return failed(
        "judge",
        endpoint.name,
        f"{host} {why}",
        "check base_url, that it runs, proxies (HTTPS_PROXY) and network policies",
        may_pass=True,
    )


def _answered(
    endpoint: EndpointSettings, listed: ModelList, *, has_key: bool, seconds: float
) -> tuple[Finding, bool]:
    name, url = endpoint.name, f"{endpoint.base_url}/models"
    status, models = listed.status, listed.names
    if status == 401:  # the status that concerns the key
        key = "rejects the API key" if has_key else "requires an API key, and none is set"
        return failed(
            "judge", name, f"{url} {key} (401)", "check the key in api_key_env or api_key_file"
        ), False
    if 300 <= status < 400:
        return failed(
            "judge", name, f"{url} redirects ({status})", "set base_url to the final address"
        ), False
    if status >= 500 or status == 429:
        return failed(
            "judge", name, f"{url} answers {status}", "check the endpoint's health and limits", may_pass=True
        ), True
    if models is None:
        # Many gateways have no list, or refuse it to some keys; the verdict shows whether they work.
        return ok("judge", name, f"answers in {seconds:.2f} s; does not list its models ({status})"), True
    if endpoint.model in models:
        return ok(
            "judge", name, f"answers in {seconds:.2f} s and serves {printable(endpoint.model, 100)}"
        ), True
    close = difflib.get_close_matches(endpoint.model, models, n=3, cutoff=0.5)
    shown = ", ".join(printable(one, 100) for one in (close or models[:MAX_NAMES])) or "none"
    return (
        warning(
            "judge",
            name,
            f"does not list the model {printable(endpoint.model, 100)} among its {len(models)}",
            f"check judge.endpoints ({name}).model; {'did you mean' if close else 'it lists'} {shown}",
        ),
        True,
    )
