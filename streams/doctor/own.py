"""Checks without a broker or a judge: secrets, prompt packs, prices, budget, process and port."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import aiohttp
import faust.streams
import orjson

from judge.chat import OFFLINE_MODEL
from judge.endpoints.options import is_loopback
from judge.errors import JudgeConfigurationError, PromptPackError
from judge.metrics.packs.pack import load_pack
from judge.text.printable import printable
from streams.doctor.findings import CheckName, Finding, bad_settings, failed, ok, warning
from streams.errors import SettingsError
from streams.judging.endpoints import check_prices, judge_endpoints, may_cost, price_of
from streams.judging.metrics import build_metric, pack_warnings
from streams.kafka.access.access import client_options
from streams.settings.addresses import sends_key_in_the_clear
from streams.settings.judge import EndpointSettings
from streams.settings.outputs import TelemetrySettings
from streams.settings.tree import Settings
from streams.telemetry.logs import SHORT_SECRET, short_secrets
from streams.web.port import open_access

SPARE_DESCRIPTORS: Final = 128  # for broker connections, HTTP clients, files and the event loop
_LOOK_SECONDS: Final = 1.0


@contextmanager
def _reported(findings: list[Finding], check: CheckName, subject: str) -> Iterator[None]:
    """Add the problems of the settings that a block meets."""
    try:
        yield
    except SettingsError as error:
        findings += [bad_settings(check, subject, one) for one in error.problems]


def examine_secrets(settings: Settings, env: Mapping[str, str], *, judges: bool = True) -> list[Finding]:
    """Check that each secret, certificate and key can be read; none is shown (`judges`: a judge is used)."""
    findings: list[Finding] = []
    security, telemetry = settings.kafka.security, settings.telemetry
    with _reported(findings, "secrets", "kafka.security"):
        client_options(settings.kafka, env)
        how = ", ".join(filter(None, (security.protocol, security.mechanism)))
        detail = "needs none (PLAINTEXT)" if how == "PLAINTEXT" else f"credentials are present ({how})"
        findings.append(ok("secrets", "kafka.security", detail))
    if judges:
        with _reported(findings, "secrets", "judge.endpoints"):
            for endpoint in judge_endpoints(settings.judge, env, settings.metrics):
                findings += _key(endpoint, env)
    named = [name for name in ("basic_auth", "tls") if getattr(telemetry, name) is not None]
    if named:
        with _reported(findings, "secrets", "telemetry"):
            open_access(telemetry, env)
            findings.append(ok("secrets", "telemetry", f"secrets of {' and '.join(named)} are present"))
    short = [place for place in short_secrets(settings, env) if judges or not place.startswith("judge.")]
    return findings + [warning("secrets", place, *SHORT_SECRET.split("; ", 1)) for place in short]


def _key(endpoint: EndpointSettings, env: Mapping[str, str]) -> list[Finding]:
    findings: list[Finding] = []
    subject = f"judge.endpoints ({endpoint.name})"
    with _reported(findings, "secrets", subject):
        endpoint.read_key(env)
        if sends_key_in_the_clear(endpoint.base_url, has_key=endpoint.api_key is not None):
            what = "the API key would be sent to another machine without encryption"
            findings.append(warning("secrets", subject, what, "use an https address"))
        else:
            detail = "no API key is set" if endpoint.api_key is None else "the API key is present"
            findings.append(ok("secrets", subject, detail))
    return findings


def examine_packs(settings: Settings) -> list[Finding]:
    findings: list[Finding] = []
    for name, metric in settings.metrics.items():
        with _reported(findings, "packs", name):
            try:
                built = build_metric(name, metric)
                pack = None if metric.prompt_pack is None else load_pack(metric.prompt_pack)
            except (JudgeConfigurationError, PromptPackError) as error:
                raise SettingsError([str(error)]) from error
            doubts = "; ".join(printable(one, 400) for one in pack_warnings(built, pack))
            if pack is not None and doubts:
                findings.append(warning("packs", name, f"{metric.prompt_pack}: {doubts}", "correct the file"))
            else:
                told = "built in" if pack is None else f"{metric.prompt_pack} loads"
                findings.append(ok("packs", name, told))
    return findings


def examine_budget(settings: Settings, env: Mapping[str, str]) -> list[Finding]:
    try:
        endpoints = judge_endpoints(settings.judge, env, settings.metrics)
        check_prices(settings.judge, endpoints, settings.sampling_limit)
    except SettingsError as error:
        return [bad_settings("budget", "prices", one) for one in error.problems]
    findings = [
        warning(
            "budget",
            f"price ({one.name})",
            f"the price of {printable(one.model, 100)} is not known: results have no cost",
            f"set usd_per_million_tokens of judge.endpoints ({one.name}); 0 if it is free",
        )
        for one in endpoints
        if price_of(one) is None and one.model != OFFLINE_MODEL
    ]
    limits = settings.limits
    if limits:
        told = ", ".join(
            f"{value:,g} {unit} per day of {name}"
            for name, limit in limits
            for unit, value in (("USD", limit.usd_per_day), ("calls", limit.calls_per_day))
            if value is not None
        )
        findings.append(ok("budget", "limit", f"{told}, for all workers together"))
    elif any(map(may_cost, endpoints)):
        what = "no budget is set: the cost of a burst of events is unlimited"
        findings.append(warning("budget", "limit", what, "set usd_per_day or calls_per_day of judge.budget"))
    return findings or [ok("budget", "limit", "none needed: these judges are free")]


def examine_process(settings: Settings, *, descriptors: int | None = None) -> list[Finding]:
    """Check Faust's compiled parts, the limit of open files (default: this process's) and the cache file."""
    judge, cache = settings.judge, settings.judge.cache.file
    findings = [ok("process", "faust", "its compiled parts are present")]
    if faust.streams._CStreamIterator is None:  # noqa: SLF001 - the only way to know
        what = "its compiled stream iterator is missing, and the worker needs it"
        remedy = "install faust-streaming from a wheel (or with a C compiler) and unset NO_CYTHON"
        findings = [failed("process", "faust", what, remedy)]
    may_open = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if descriptors is None else descriptors
    needed = judge.max_in_flight + max(1, len(judge.endpoints)) + SPARE_DESCRIPTORS
    if resource.RLIM_INFINITY != may_open < needed:
        what = f"{may_open} may be open; {judge.max_in_flight} concurrent judge calls need about {needed}"
        remedy = f"raise the limit (ulimit -n {needed}), or lower judge.max_in_flight"
        findings.append(warning("process", "file descriptors", what, remedy))
    else:
        what = f"{may_open} may be open, about {needed} are needed"
        findings.append(ok("process", "file descriptors", what))
    if cache is not None and not os.access(cache if cache.exists() else cache.parent, os.W_OK):
        remedy = "correct permissions or path of judge.cache.file"
        findings.append(failed("process", "cache", f"{cache} cannot be written", remedy))
    return findings


async def examine_port(telemetry: TelemetrySettings, env: Mapping[str, str]) -> list[Finding]:
    tls, host, findings = telemetry.tls, telemetry.host, [await _port(telemetry)]
    guarded = telemetry.basic_auth is not None or (tls is not None and tls.client_ca_file is not None)
    if is_loopback(host) and "KUBERNETES_SERVICE_HOST" in env:
        what = "in Kubernetes, probes and Prometheus cannot reach a loopback address"
        remedy = "set telemetry.host to 0.0.0.0, and restrict access by a NetworkPolicy"
        findings.append(warning("port", host, what, remedy))
    elif not (is_loopback(host) or guarded):
        what = "all hosts that reach it can read the page and metrics, including verdicts of single answers"
        remedy = "set telemetry.basic_auth, or restrict access by network policy"
        findings.append(warning("port", host, what, remedy))
    return findings


async def _port(telemetry: TelemetrySettings) -> Finding:
    host, port = telemetry.host, telemetry.port
    subject = f"{host}:{port}"
    try:
        server = await asyncio.start_server(lambda *_: None, host, port)
    except (OSError, socket.gaierror) as error:
        in_use = error.errno == errno.EADDRINUSE
        if in_use and await _is_worker(telemetry):
            return ok("port", subject, "a judgestream worker listens there already")
        what = f"cannot be used ({error.strerror or error})"
        remedy = (
            "set telemetry.port to a free one (0 picks one), and telemetry.host to an address of this machine"
        )
        return failed("port", subject, what, remedy, may_pass=in_use)
    server.close()  # wait_closed would wait for clients that are connected
    return ok("port", subject, "is free" if port else "any free port")


async def _is_worker(telemetry: TelemetrySettings) -> bool:
    host = f"[{telemetry.host}]" if ":" in telemetry.host else telemetry.host
    url = f"{'http' if telemetry.tls is None else 'https'}://{host}:{telemetry.port}/healthz"
    try:
        async with (
            asyncio.timeout(_LOOK_SECONDS),
            aiohttp.ClientSession() as session,
            session.get(url, ssl=False, allow_redirects=False) as answer,
        ):
            said = orjson.loads(await answer.content.read(65_536))
    except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError):
        return False
    return isinstance(said, dict) and {"ok", "reasons"} <= said.keys()
