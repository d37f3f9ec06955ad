"""Plan a replay, and derive its settings."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from streams.errors import SettingsError
from streams.settings import EndpointSettings, JudgeSettings, MetricSettings, Settings
from streams.worker.replay.estimate import Limits

_ID: Final = re.compile(r"replay-(\d{8}T\d{6}Z)-([0-9a-f]{8})")
_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Selects the events of a replay and how they are judged.

    Args:
        since: Time of the first record; None with `file`.
        until: End time (exclusive).
        file: File with events, instead of the topic.
        incident: The incident to examine.
        parts: Labels of the selected parts of the traffic; empty for all.
        metrics: Names of metrics; empty for all in the settings.
        pack: Prompts instead of the metric's own.
        endpoint: Name of the only endpoint to use; None for those of the settings.
        per_second: Limit on answers per second.
        max_usd: Limit on the cost.
        share: Share of the worker's limits to use, above 0 and at most 1.
    """

    since: datetime | None = None
    until: datetime | None = None
    file: Path | None = None
    incident: str | None = None
    parts: tuple[Mapping[str, str], ...] = ()
    metrics: tuple[str, ...] = ()
    pack: Path | None = None
    endpoint: str | None = None
    per_second: float | None = None
    max_usd: float | None = None
    share: float = 0.2

    def digest(self) -> str:
        """Return eight hex digits that identify the selected events and how they are judged."""
        what = [
            *(None if one is None else one.isoformat() for one in (self.since, self.until)),
            None if self.file is None else self.file.name,
            self.incident,
            sorted(self.metrics),
            None if self.pack is None else hashlib.sha256(self.pack.read_bytes()).hexdigest(),
            self.endpoint,
        ]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:8]


def new_id(plan: Plan, now: datetime) -> str:
    """Return the id of a replay that starts now."""
    return f"replay-{now.astimezone(UTC):{_TIME}}-{plan.digest()}"


def begun_at(replay_id: str, plan: Plan) -> datetime:
    """Return the start time of a replay, to resume it.

    Raises:
        SettingsError: The id is not of a replay, or of one with other options.
    """
    found = _ID.fullmatch(replay_id)
    if found is None:
        raise SettingsError([f"--resume: must be the id of a replay, got {replay_id!r}; see its first line"])
    if found[2] != plan.digest():
        raise SettingsError(
            [f"--resume: {replay_id} has other options; use the same ones, or start a new replay"]
        )
    return datetime.strptime(found[1], _TIME).replace(tzinfo=UTC)


def settings_of(plan: Plan, settings: Settings) -> Settings:
    """Return the settings of a replay: its metrics, its endpoint, its share of every limit.

    Raises:
        SettingsError: A metric or endpoint does not exist.
    """
    metrics = _metrics(plan, settings)
    judge = settings.judge
    endpoints = judge.endpoints
    if plan.endpoint is not None:
        endpoints = tuple(one for one in endpoints if one.name == plan.endpoint)
        if not endpoints:
            known = ", ".join(one.name for one in judge.endpoints) or "none"
            raise SettingsError([f"--endpoint: must be one of {known}, got {plan.endpoint!r}"])
        metrics = {
            name: one.model_copy(update={"endpoints": (), "panel": None}) for name, one in metrics.items()
        }
    shared = judge.model_copy(
        update={
            "max_in_flight": max(1, int(judge.max_in_flight * plan.share)),
            "endpoints": tuple(_shared(one, plan.share) for one in endpoints),
        }
    )
    return settings.model_copy(update={"judge": shared, "metrics": metrics})


def limits_of(plan: Plan, judge: JudgeSettings, endpoints: tuple[EndpointSettings, ...]) -> Limits:
    """Return the rate limits of a replay with the settings from `settings_of`."""
    requests = [one.requests_per_minute for one in endpoints]
    tokens = [one.tokens_per_minute for one in endpoints]
    places = [one.max_in_flight or judge.max_in_flight for one in endpoints]
    return Limits(
        in_flight=min(judge.max_in_flight, sum(places)),
        per_second=plan.per_second,
        requests_per_minute=sum(filter(None, requests)) if all(requests) else None,
        tokens_per_minute=sum(filter(None, tokens)) if all(tokens) else None,
    )


def _metrics(plan: Plan, settings: Settings) -> dict[str, MetricSettings]:
    wanted = plan.metrics or tuple(settings.metrics)
    unknown = [name for name in wanted if name not in settings.metrics and plan.pack is None]
    if unknown:
        known = ", ".join(settings.metrics)
        raise SettingsError([f"--metric: must be one of {known}, got {unknown[0]!r}; or add --pack"])
    if plan.pack is None:
        return {name: settings.metrics[name] for name in wanted}
    if len(wanted) != 1:
        raise SettingsError([f"--pack: needs exactly one metric, got {len(wanted)}; name it with --metric"])
    own = settings.metrics.get(wanted[0], MetricSettings())
    return {wanted[0]: own.model_copy(update={"prompt_pack": plan.pack, "mode": None})}


def _shared(endpoint: EndpointSettings, share: float) -> EndpointSettings:
    calls, requests, tokens = (
        endpoint.max_in_flight,
        endpoint.requests_per_minute,
        endpoint.tokens_per_minute,
    )
    return endpoint.model_copy(
        update={
            "max_in_flight": None if calls is None else max(1, int(calls * share)),
            "requests_per_minute": None if requests is None else requests * share,
            "tokens_per_minute": None if tokens is None else tokens * share,
        }
    )
