"""Build the parts of the intake from the settings."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from streams.errors import SettingsError
from streams.intake.joining.join import Bounds
from streams.intake.reading import Ingest
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.registry.client import RegistryClient
from streams.intake.reading.registry.unpacking import Unpacking
from streams.intake.sampling import LabelsCondition, Rule, SamplingPolicy
from streams.intake.selector import EventCondition, Route
from streams.settings import (
    RegistrySettings,
    SamplingSettings,
    Settings,
)
from streams.settings.intake import IngestSettings
from streams.settings.metrics import Unit

GRACE_SECONDS: Final = 5.0
"""Time from a trace's root span until the trace is closed."""
TRACE_IDLE_SECONDS: Final = 60.0
CONVERSATION_IDLE_SECONDS: Final = 300.0
LONGEST_IDLE_TIMES: Final = 12
GROUP_BYTES: Final = 4_096
"""What an open trace or conversation counts for at least: the memory of many small ones."""


def sampling_policy(sampling: SamplingSettings, *, least_rate: float = 0.0) -> SamplingPolicy:
    """Build the sampling policy; rates above 0 are at least `least_rate`."""

    def rate(own: float) -> float:
        return own and max(own, least_rate)

    return SamplingPolicy(
        default_rate=rate(sampling.default_rate),
        rules=[Rule(one.name, LabelsCondition.of(one.when), rate(one.rate)) for one in sampling.rules],
        key=sampling.key,
        upstream=sampling.upstream,
        floor=sampling.upstream_floor,
    )


def reading_policy(settings: Settings) -> SamplingPolicy:
    """Build the policy of push-down, which keeps the events of metrics that judge more than the sample."""
    least = max((metric.rate for metric in settings.metrics.values() if metric.is_code), default=0.0)
    return sampling_policy(settings.sampling, least_rate=least)


def json_reader(ingest: IngestSettings) -> Ingest:
    """Build the reader of JSON records; with format otlp the mapping applies to traces only."""
    mapping = ingest.mapping if ingest.format == "json" else None
    return Ingest(max_event_bytes=ingest.max_event_bytes, mapping=mapping)


def trace_reader(ingest: IngestSettings) -> OtlpReader:
    """Build the reader of traces."""
    return OtlpReader(unit=ingest.otlp.unit, max_event_bytes=ingest.max_event_bytes, mapping=ingest.mapping)


def joining_bounds(ingest: IngestSettings) -> Bounds:
    """Return the bounds for joining traces, or conversations, which are never known to be complete."""
    is_trace, size = ingest.format == "otlp", ingest.max_open_bytes
    idle = ingest.idle_seconds or (TRACE_IDLE_SECONDS if is_trace else CONVERSATION_IDLE_SECONDS)
    return Bounds(
        grace=GRACE_SECONDS if is_trace else 0,
        idle=idle,
        longest=LONGEST_IDLE_TIMES * idle,
        groups=size // GROUP_BYTES,
        size=size,
    )


def metric_routes(settings: Settings, unit: Unit = "event") -> tuple[Route, ...]:
    """Build the route of each metric of a unit (event or conversation), in the order of the settings."""
    return tuple(
        Route(
            metric=name,
            when=EventCondition(has=metric.when.has, labels=LabelsCondition.of(metric.when.labels)),
            rate=metric.rate,
            of_all=metric.is_code,
        )
        for name, metric in settings.metrics.items()
        if metric.unit == unit
    )


def open_registry(
    registry: RegistrySettings | None, env: Mapping[str, str], *, patient: bool = True, seconds: float = 10
) -> Unpacking | None:
    """Build the decoder of records with registry schemas; None without a registry. Sends no request.

    Args:
        registry: The section `ingest.registry`.
        env: Environment variables.
        patient: Whether to wait during an outage of the registry; otherwise raise.
        seconds: Timeout of one request.

    Raises:
        SettingsError: A secret or file is missing, or the extra is not installed.
    """
    if registry is None:
        return None
    if find_spec("fastavro") is None:
        raise SettingsError(["ingest.registry: needs fastavro; pip install 'judgestream[registry]'"])
    tls = None
    if registry.ca is not None:
        try:
            tls = ssl.create_default_context(cafile=str(registry.ca))
        except OSError as error:
            raise SettingsError(
                [f"ingest.registry.ca: {registry.ca} has no authorities ({error}); name a PEM file"]
            ) from error
    client = RegistryClient(
        registry.url, auth=_authorization(registry, env), tls=tls, timeout_seconds=seconds, patient=patient
    )
    return Unpacking(client) if patient else Unpacking(client, unknown_seconds=0)


def _authorization(registry: RegistrySettings, env: Mapping[str, str]) -> str | None:
    auth = registry.auth
    if auth is None:
        return None
    secret = auth.secret.read("ingest.registry.auth.secret", env).get_secret_value()
    if auth.username is None:
        return f"Bearer {secret}"
    return "Basic " + b64encode(f"{auth.username}:{secret}".encode()).decode()
