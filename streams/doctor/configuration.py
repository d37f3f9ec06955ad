"""Checks without network: secrets, prompt packs, prices and budget."""

from __future__ import annotations

from collections.abc import Mapping

from judge.chat import OFFLINE_MODEL
from judge.errors import JudgeConfigurationError, PromptPackError
from judge.metrics.packs.pack import load_pack
from judge.text.printable import printable
from streams.doctor.finding import Finding, bad_settings, ok, warning
from streams.errors import SettingsError
from streams.judging.from_settings import budget_limits
from streams.judging.metrics import build_metric, pack_warnings
from streams.judging.prices import check_prices, may_cost, price_of
from streams.judging.stack import judge_endpoints
from streams.kafka.access.access import client_options
from streams.settings import Settings, read_secret
from streams.settings.addresses import sends_key_in_the_clear
from streams.telemetry.masking import SHORT_SECRET, short_secrets
from streams.web.access import open_access


def examine_secrets(settings: Settings, env: Mapping[str, str], *, judges: bool = True) -> list[Finding]:
    """Check that each secret, certificate and key can be read; none is shown.

    Args:
        settings: The settings.
        env: Environment variables.
        judges: Whether a judge is used.
    """
    return [
        *_broker_secrets(settings, env),
        *(_judge_secrets(settings, env) if judges else ()),
        *_page_secrets(settings, env),
        *(
            warning("secrets", place, *SHORT_SECRET.split("; ", 1))
            for place in short_secrets(settings, env)
            if judges or not place.startswith("judge.")
        ),
    ]


def _broker_secrets(settings: Settings, env: Mapping[str, str]) -> list[Finding]:
    security = settings.kafka.security
    try:
        client_options(settings.kafka, env)
    except SettingsError as error:
        return [bad_settings("secrets", "kafka.security", one) for one in error.problems]
    if security.protocol == "PLAINTEXT":
        return [ok("secrets", "kafka.security", "needs none (PLAINTEXT)")]
    how = security.protocol if security.mechanism is None else f"{security.protocol}, {security.mechanism}"
    return [ok("secrets", "kafka.security", f"credentials are present ({how})")]


def _judge_secrets(settings: Settings, env: Mapping[str, str]) -> list[Finding]:
    try:
        endpoints = judge_endpoints(settings.judge, env, settings.metrics)
    except SettingsError as error:
        return [bad_settings("secrets", "judge.endpoints", one) for one in error.problems]
    found = []
    for endpoint in endpoints:
        subject = f"judge.endpoints ({endpoint.name})"
        try:
            key = read_secret(endpoint.api_key, f"judge.endpoints ({endpoint.name}).api_key", env)
        except SettingsError as error:
            found += [bad_settings("secrets", subject, one) for one in error.problems]
            continue
        if sends_key_in_the_clear(endpoint.base_url, has_key=key is not None):
            what = "the API key would be sent to another machine without encryption"
            found.append(warning("secrets", subject, what, "use an https address"))
            continue
        found.append(ok("secrets", subject, "no API key is set" if key is None else "the API key is present"))
    return found


def _page_secrets(settings: Settings, env: Mapping[str, str]) -> list[Finding]:
    telemetry = settings.telemetry
    if telemetry.basic_auth is None and telemetry.tls is None:
        return []
    try:
        open_access(telemetry, env)
    except SettingsError as error:
        return [bad_settings("secrets", "telemetry", one) for one in error.problems]
    named = [name for name in ("basic_auth", "tls") if getattr(telemetry, name) is not None]
    return [ok("secrets", "telemetry", f"secrets of {' and '.join(named)} are present")]


def examine_packs(settings: Settings) -> list[Finding]:
    """Check that each metric can be built, with its prompt pack."""
    found = []
    for name, metric in settings.metrics.items():
        try:
            built = build_metric(name, metric)
            pack = None if metric.prompt_pack is None else load_pack(metric.prompt_pack)
        except SettingsError as error:
            found += [bad_settings("packs", name, one) for one in error.problems]
            continue
        except (JudgeConfigurationError, PromptPackError) as error:
            found.append(bad_settings("packs", name, str(error)))
            continue
        warnings = pack_warnings(built, pack)
        if pack is None:
            found.append(ok("packs", name, "built in"))
        elif warnings:
            said = "; ".join(printable(one, 400) for one in warnings)
            found.append(warning("packs", name, f"{metric.prompt_pack}: {said}", "correct the file"))
        else:
            found.append(ok("packs", name, f"{metric.prompt_pack} loads"))
    return found


def examine_budget(settings: Settings, env: Mapping[str, str]) -> list[Finding]:
    """Warn of unknown prices and of a missing budget."""
    try:
        endpoints = judge_endpoints(settings.judge, env, settings.metrics)
        check_prices(settings.judge, endpoints)
    except SettingsError as error:
        return [bad_settings("budget", "prices", one) for one in error.problems]
    unpriced = [one for one in endpoints if price_of(one) is None and one.model != OFFLINE_MODEL]
    found = [
        warning(
            "budget",
            f"price ({one.name})",
            f"the price of {printable(one.model, 100)} is not known: results have no cost",
            f"set usd_per_million_tokens of judge.endpoints ({one.name}); 0 if it is free",
        )
        for one in unpriced
    ]
    limits = budget_limits(settings.judge)
    if limits.any:
        return [*found, ok("budget", "limit", _limits(settings))]
    if any(may_cost(one) for one in endpoints):
        found.append(
            warning(
                "budget",
                "limit",
                "no budget is set: the cost of a burst of events is unlimited",
                "set judge.budget_usd_per_day, or calls_per_day under judge.budget",
            )
        )
    return found or [ok("budget", "limit", "none needed: these judges are free")]


def _limits(settings: Settings) -> str:
    limits = budget_limits(settings.judge)
    named = {
        "USD per hour": limits.usd_per_hour,
        "USD per day": limits.usd_per_day,
        "calls per hour": limits.calls_per_hour,
        "calls per day": limits.calls_per_day,
    }
    return (
        ", ".join(f"{value:,g} {what}" for what, value in named.items() if value is not None) + " per worker"
    )
