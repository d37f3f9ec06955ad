"""The worker's HTTP port: /metrics, /healthz, /readyz, the status page, and the explorer of its store."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from judge.text.printable import NO_DESCRIPTORS
from streams.telemetry.exposition import content_type, expose
from streams.web.port import BasicAuth, Port, add_assets, json_response

if TYPE_CHECKING:
    from streams.store.views.explorer import Explorer
    from streams.worker.status import Status
    from streams.worker.worker import Worker

_log = structlog.stdlib.get_logger(__name__)

_ASSETS: Final = {"/": "status.html", "/status.js": "status.js"}
_UNGUARDED: Final = (
    "answer texts are not shown: set telemetry.basic_auth, telemetry.tls with client_ca_file, or "
    "telemetry.host 127.0.0.1\n"
)
STUCK_LOOP_SECONDS: Final = 60.0
"""Limit for the delivery loop, which turns at least once a second; a rebalance may delay it."""
STUCK_AGENT_SECONDS: Final = 900.0
"""An agent with records in flight that finishes none for this long, and waits for no dependency, is stuck."""
SILENT_SECONDS: Final = 12.0
"""Four heartbeats of 3 s; `/readyz` reports within 15 s of the coordinator's last response."""
TOLD_FOR: Final = timedelta(days=1)
"""How long a note names a changed model."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The result of a health check: why it failed, and notes, which do not affect `ok`."""

    ok: bool
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Health:
    """Checks the parts of one worker; `now` is the monotonic clock, in seconds."""

    def __init__(self, worker: Worker, now: Callable[[], float] = time.monotonic) -> None:
        self._worker = worker
        self._now = now
        self.stopping = False

    def alive(self) -> HealthReport:
        """Whether a restart would not help: everything progresses or waits for a dependency."""
        reasons = []
        worker, loop, now = self._worker, self._worker.loop(), self._now()
        # There is no loop before the first assignment; waiting for a broker or a group is not being stuck.
        idle = 0.0 if loop is None or loop.last_turn is None else now - loop.last_turn
        if idle > STUCK_LOOP_SECONDS:
            reasons.append(f"the delivery loop has not run for {idle:.0f} s")
        waiting = (
            worker.judge_trouble is not None
            or worker.spending.deferring is not None
            or self._coordinator_silent() is not None
            or bool(worker.broker_troubles())
        )
        for agent in worker.pipelines:
            quiet = now - agent.last_finished
            limit = STUCK_AGENT_SECONDS + agent.patience_seconds
            if agent.in_hand and quiet > limit and not waiting:
                reasons.append(
                    f"agent {agent.name} has {agent.in_hand} records in flight and finished none for "
                    f"{quiet:.0f} s"
                )
        return HealthReport(not reasons, tuple(reasons))

    def ready(self) -> HealthReport:
        reasons = []
        worker, loop = self._worker, self._worker.loop()
        if self.stopping:
            reasons.append("stopping")
        if loop is None or not loop.assigned:
            reasons.append("no partitions assigned yet (joining or rebalancing)")
        if (trouble := worker.judge_trouble) is not None:
            reasons.append(trouble if NO_DESCRIPTORS in trouble else f"judge unavailable: {trouble}")
        if (silent := self._coordinator_silent()) is not None:
            reasons.append(silent)
        reasons += worker.broker_troubles()
        # Notes do not affect readiness: answers are judged without budget, store or citations.
        store = None if worker.store is None else worker.store.trouble
        notes = (worker.spending.deferring, store, worker.citations.note, *self._about_endpoints())
        return HealthReport(not reasons, tuple(reasons), tuple(note for note in notes if note is not None))

    def _about_endpoints(self) -> Iterator[str]:
        for one in self._worker.endpoints:
            if one.is_unwell:
                what = f"fails {one.failed_share:.0%} of its events at the first try"
                yield f"judge endpoint {one.name} {what}; one of its replicas may be broken"
            changed_at = one.model_changed_at
            if changed_at is not None and datetime.now(UTC) - changed_at < TOLD_FOR:
                what = f"{one.model} answers instead of {one.earlier_model} since {changed_at:%F %H:%M} UTC"
                yield f"judge endpoint {one.name}: {what}; scores before and after are not comparable"

    def _coordinator_silent(self) -> str | None:
        """Return a message if the group coordinator, which gets regular heartbeats, does not answer."""
        loop, interval = self._worker.loop(), self._worker.settings.kafka.heartbeat_interval_seconds
        answered = None if loop is None or not loop.assigned else loop.coordinator_answered
        quiet = 0.0 if answered is None else self._now() - answered
        if quiet <= max(SILENT_SECONDS, 3 * interval):
            return None
        return f"the broker is unavailable: the group coordinator has not answered for {quiet:.0f} s"


async def serve(worker: Worker, auth: BasicAuth | None = None, tls: ssl.SSLContext | None = None) -> Port:
    """Serve one worker's state, read-only: every method but GET and HEAD is rejected."""
    telemetry, explorer = worker.settings.telemetry, worker.explorer
    port = Port(
        setting="telemetry.port",
        host=telemetry.host,
        port=telemetry.port,
        auth=auth,
        tls=tls,
        far_paths={"/metrics"} if telemetry.page == "loopback" else None,
    )
    app = port.application()
    app.router.add_get("/metrics", partial(_metrics, worker.metrics.registry, set()))
    app.router.add_get("/healthz", partial(_report, worker.health.alive))
    app.router.add_get("/readyz", partial(_report, worker.health.ready))
    told = explorer if port.guarded else None
    app.router.add_get("/status.json", partial(_status_json, worker.status, told))
    add_assets(app, "streams.worker.assets", _ASSETS)
    if explorer is not None:
        # The page shows only ids and reasons; the explorer shows complete answers of customers.
        explorer.add_to(app, refusal=None if port.guarded else _UNGUARDED)
    await port.start(app)
    if not port.guarded:
        _log.warning(
            "the page and the metrics, including verdicts of single answers, need no login; set "
            "telemetry.basic_auth, or restrict access by network policy",
            url=port.url,
        )
    return port


async def _metrics(
    registry: CollectorRegistry, shown: set[tuple[object, ...]], request: web.Request
) -> web.Response:
    kind = content_type(request.headers.get("Accept", ""))
    return web.Response(body=expose(registry, kind, shown), headers={"Content-Type": kind, "Vary": "Accept"})


async def _status_json(status: Status, explorer: Explorer | None, _: web.Request) -> web.Response:
    shown = status.values()
    if explorer is not None and shown.get("verdicts"):
        known = await explorer.lines([one["result_id"] for one in shown["verdicts"]])
        shown["verdicts"] = [one | known.get(one["result_id"], {}) for one in shown["verdicts"]]
    return json_response(shown | {"explorer": explorer is not None})


async def _report(check: Callable[[], HealthReport], _: web.Request) -> web.Response:
    report = check()
    notes = {"notes": report.notes} if report.notes else {}
    body = orjson.dumps({"ok": report.ok, "reasons": report.reasons, **notes})
    return web.Response(body=body, status=200 if report.ok else 503, content_type="application/json")
