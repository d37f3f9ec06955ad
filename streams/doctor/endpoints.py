"""Tests the judge's endpoints: connection, key, model, clock, and a verdict."""

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
from judge.endpoints.connection import list_models
from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.refusals import http_date
from judge.errors import JudgeConfigurationError, JudgeError, JudgeUnavailableError
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.guard import neutral_task
from judge.text.printable import printable
from schemas import Failed, JudgeTask, Scored, Unscored, Usage
from streams.doctor.findings import ALWAYS, CheckName, Finding, Row, evaluate, failed, not_tried, ok, warning
from streams.errors import SettingsError
from streams.judging.endpoints import asked_by, build_prices, judge_endpoints, open_pool
from streams.judging.metrics import build_metrics
from streams.settings.judge import EndpointSettings
from streams.settings.tree import Settings

MAX_NAMES: Final = 10
CLOCK_WARNING_SECONDS: Final = 5.0
_CHECKS: Final[tuple[CheckName, ...]] = ("judge", "verdict", "clock")
_TRANSPORT: Final = (aiohttp.ClientError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Answer:
    """An endpoint's answer to a request for its models, or why there is none (status 0)."""

    endpoint: EndpointSettings
    has_key: bool = True
    status: int = 0
    models: Sequence[str] | None = None
    """None if it does not list them."""
    seconds: float = 0.0
    error: BaseException | None = None
    skew_seconds: float | None = None
    """This machine's clock minus the endpoint's; None if it reports no time."""

    @property
    def usable(self) -> bool:
        return self.status not in {0, 401} and not 300 <= self.status < 400


def check_answer(answer: Answer) -> list[Finding]:
    endpoint, error, status, models = answer.endpoint, answer.error, answer.status, answer.models or ()
    host, url = urlsplit(endpoint.base_url).netloc, f"{endpoint.base_url}/models"
    key = "rejects the API key" if answer.has_key else "requires an API key, and none is set"
    model, seconds = printable(endpoint.model, 100), f"answers in {answer.seconds:.2f} s"
    close = difflib.get_close_matches(endpoint.model, models, n=3, cutoff=0.5)
    names = ", ".join(printable(one, 100) for one in (close or models[:MAX_NAMES])) or "none"
    listed = f"did you mean {names}" if close else f"it lists {names}"
    rows = (
        Row(isinstance(error, UnicodeError), "failed",
            "the API key contains characters that are invalid in an HTTP header",
            "check the secret for line breaks or quotes"),
        Row(isinstance(error, SettingsError), "not tried", "its API key is missing, see secrets"),
        Row(isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError), "failed",
            f"TLS with {host} fails: {printable(str(error), 500)}",
            "check base_url, and this machine's certificate authorities (SSL_CERT_FILE)"),
        Row(error, "failed", f"{host} {_why(error)}",
            "check base_url, that it runs, proxies (HTTPS_PROXY) and network policies", may_pass=True),
        Row(status == 401, "failed", f"{url} {key} (401)", "check the key in api_key"),
        Row(300 <= status < 400, "failed", f"{url} redirects ({status})",
            "set base_url to the final address"),
        Row(status >= 500 or status == 429, "failed", f"{url} answers {status}",
            "check the endpoint's health and limits", may_pass=True),
        # Many gateways have no list, or refuse it to some keys; the verdict shows whether they work.
        Row(answer.models is None, "ok", f"{seconds}; does not list its models ({status})"),
        Row(endpoint.model in models, "ok", f"{seconds} and serves {model}"),
        Row(ALWAYS, "warning", f"does not list the model {model} among its {len(models)}",
            f"check judge.endpoints ({endpoint.name}).model; {listed}"),
    )  # fmt: skip
    return evaluate("judge", endpoint.name, rows)[:1]


def _why(error: BaseException | None) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "has no address (DNS)"
        case TimeoutError():
            return "does not answer in time"
        case aiohttp.ClientConnectorError(os_error=cause):
            return f"cannot be reached ({cause if cause.errno is None else os.strerror(cause.errno)})"
        case _:
            return f"closes the connection ({type(error).__name__})"


@dataclass(slots=True)
class EndpointExaminer:
    """Tests all endpoints; a successful verdict, which costs money, is not repeated."""

    settings: Settings
    env: Mapping[str, str]
    timeout_seconds: float
    now: Callable[[], float] = time.time
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    _judged: dict[tuple[str, str], Finding] = field(default_factory=dict)

    async def examine(self, checks: Collection[CheckName]) -> list[Finding]:
        wanted = [check for check in _CHECKS if check in checks]
        if not wanted:
            return []
        try:
            endpoints = judge_endpoints(self.settings.judge, self.env, self.settings.metrics)
        except SettingsError:
            return [not_tried(check, "", "no judge is set, see secrets") for check in wanted]
        answers = await asyncio.gather(*map(self._ask, endpoints))
        findings: list[Finding] = []
        if "judge" in wanted:
            for answer in answers:
                findings += check_answer(answer)
        if "verdict" in wanted:
            for answer in answers:
                findings += await self._verdicts(answer, endpoints)
        if "clock" in wanted:
            findings.append(clock_finding([(one.endpoint.name, one.skew_seconds) for one in answers]))
        return findings

    async def _ask(self, endpoint: EndpointSettings) -> Answer:
        try:
            secret = endpoint.read_key(self.env)
        except SettingsError as error:
            return Answer(endpoint, error=error)
        key = "" if secret is None else secret.get_secret_value()
        if not (key.isascii() and key.isprintable()):
            return Answer(endpoint, error=UnicodeError())
        started = self.now()
        try:
            listed = await list_models(endpoint.base_url, key, timeout_seconds=self.timeout_seconds)
        except _TRANSPORT as error:
            return Answer(endpoint, error=error)
        finished = self.now()
        skew = skew_of(listed.date, (started + finished) / 2)
        return Answer(endpoint, bool(key), listed.status, listed.names, finished - started, skew_seconds=skew)

    async def _verdicts(self, answer: Answer, endpoints: Sequence[EndpointSettings]) -> list[Finding]:
        endpoint = answer.endpoint
        windows = {one.name: one.context_tokens for one in endpoints if one.context_tokens is not None}
        # Each metric at its own endpoints.
        wanted = {
            name: asked
            for name, metric in self.settings.metrics.items()
            for judged in (metric, metric.cheap)
            if not (judged is None or judged.is_code)
            and endpoint.name in (asked := asked_by(judged, [(one.name, one.model) for one in endpoints]))
        }
        if not answer.usable:
            why = "the endpoint is not usable"
            return [not_tried("verdict", f"{endpoint.name}, {name}", why) for name in wanted]
        try:
            metrics = build_metrics(self.settings)
            prices = build_prices((endpoint,))
            # A cached verdict would test nothing.
            pool = open_pool(self.settings.judge, (endpoint,), prices=prices, cached=False)
        except (SettingsError, JudgeConfigurationError) as error:
            return [not_tried("verdict", endpoint.name, f"it is not usable: {printable(str(error), 300)}")]
        async with pool:
            findings = []
            for name, asked in wanted.items():
                judge = pool.evaluator(
                    metrics[name],
                    parameters=self.settings.metrics[name].parameters,
                    # As in a worker.
                    context_tokens=min((windows[one] for one in asked if one in windows), default=None),
                )
                earlier = self._judged.get((endpoint.name, name))
                findings.append(
                    earlier or await self._verdict(endpoint, judge, pool.endpoints[0].options.chat)
                )
            return findings

    async def _verdict(self, endpoint: EndpointSettings, judge: Evaluator, chat: ChatClient) -> Finding:
        name = judge.metric.name
        task = neutral_task(judge.metric, now=datetime.now(UTC))
        subject = f"{endpoint.name}, {name}"
        try:
            result = await judge.judge(task)
        except JudgeUnavailableError as error:
            remedy = "check the endpoint's health and limits"
            return failed("verdict", subject, _with_reply(error), remedy, may_pass=True)
        except JudgeConfigurationError as error:
            what, _, remedy = str(error).partition(". ")
            told = f"{what}: {error.said}" if error.said else what
            return failed("verdict", subject, printable(told, 500), remedy or "check the endpoint's settings")
        spent = dict(result.usage)
        self.usage = Usage(**{name: tokens + spent[name] for name, tokens in self.usage})
        if result.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + result.cost_usd
        finding = _judged(subject, result, judge, task, chat)
        if finding.outcome != "failed":
            self._judged[endpoint.name, name] = finding
        return finding


def _judged(
    subject: str, result: Scored | Unscored | Failed, judge: Evaluator, task: JudgeTask, chat: ChatClient
) -> Finding:
    spent = [f"{result.usage.input_tokens} tokens in, {result.usage.output_tokens} out"]
    spent.append("no price known" if result.cost_usd is None else f"{result.cost_usd:.6f} USD")
    if result.times.judge_seconds is not None:
        spent.append(f"{result.times.judge_seconds:.2f} s")
    prepared, is_ours = judge.metric.prepare(task), isinstance(chat, OpenAIChat)
    if is_ours and isinstance(prepared, ChatRequest) and prepared.response_schema is not None:
        spent.append(f"requested by {chat.response_format.value}")  # type: ignore[attr-defined]  # is_ours
    if result.judge is not None and result.judge.tries > 1:
        spent.append(f"repaired at attempt {result.judge.tries}")
    told = "; ".join(spent)
    match result:
        case Scored():
            low, high = judge.metric.score_range
            return ok("verdict", subject, f"{result.amount:g} of {low:g} to {high:g} ({told})")
        case Unscored():
            what = f"the sample was not scored: {result.reason} ({told})"
            return warning("verdict", subject, what, "check the metric's settings and prompts")
        case Failed():
            # The reply may be shown: it can only quote the doctor's own sample.
            said = chat.said if isinstance(chat, OpenAIChat) else ""
            reply = f". Reply: {printable(said, 300)}" if said else ""
            what = f"{result.error_type}: {printable(result.detail, 300)} ({told}){reply}"
            return failed("verdict", subject, what, "try a more capable model, or correct the prompt pack")


def _with_reply(error: JudgeError) -> str:
    """Return the error with the endpoint's reply, which can only quote the doctor's own sample."""
    reply = f". Reply: {error.said}" if error.said and error.said not in str(error) else ""
    return printable(f"{error}{reply}", 500)


def skew_of(date: str | None, at: float) -> float | None:
    """Return this machine's clock minus the other's, in whole seconds; half a second is added on average."""
    there = http_date(date)
    return None if there is None else at - (there.timestamp() + 0.5)


def clock_finding(skews: Sequence[tuple[str, float | None]]) -> Finding:
    """Return how far this machine's clock is off, by endpoint; None: it reports no time."""
    known = [(abs(skew), skew, name) for name, skew in skews if skew is not None]
    if not known:
        return not_tried("clock", "", "no endpoint reports its time (HTTP Date)")
    size, skew, name = min(known)
    if size <= CLOCK_WARNING_SECONDS:
        return ok("clock", "", f"agrees with judge endpoint {name} to the second")
    way = "ahead of" if skew > 0 else "behind"
    remedy = (
        "synchronise it (NTP): result times, budgets, and the expiry of tokens and certificates depend on it"
    )
    return warning("clock", "", f"is {size:.0f} s {way} that of judge endpoint {name}", remedy)
