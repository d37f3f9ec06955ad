"""The worker's HTTP port: /metrics, /healthz, /readyz, the status page, and the explorer of its store."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from streams.settings.outputs import TelemetrySettings
from streams.telemetry.exposition import content_type, expose
from streams.web.port import BasicAuth, Port, add_assets, json_response
from streams.worker.health import Health, HealthReport

if TYPE_CHECKING:
    from streams.store.views.explorer import Explorer

_log = structlog.stdlib.get_logger(__name__)

_ASSETS: Final = {"/": "status.html", "/status.js": "status.js"}
_UNGUARDED: Final = (
    "answer texts are not shown: set telemetry.basic_auth, telemetry.tls with client_ca_file, or "
    "telemetry.host 127.0.0.1\n"
)


async def serve(
    telemetry: TelemetrySettings,
    *,
    registry: CollectorRegistry,
    health: Health,
    status: Callable[[], Mapping[str, Any]],
    auth: BasicAuth | None = None,
    tls: ssl.SSLContext | None = None,
    explorer: Explorer | None = None,
) -> Port:
    """Serve one worker's state, read-only: every method but GET and HEAD is rejected."""
    port = Port(
        setting="telemetry.port",
        host=telemetry.host,
        port=telemetry.port,
        auth=auth,
        tls=tls,
        far_paths={"/metrics"} if telemetry.page == "loopback" else None,
    )
    app = port.application()
    app.router.add_get("/metrics", partial(_metrics, registry, set()))
    app.router.add_get("/healthz", partial(_report, health.alive))
    app.router.add_get("/readyz", partial(_report, health.ready))
    app.router.add_get("/status.json", partial(_status_json, status, explorer if port.guarded else None))
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


async def _status_json(
    status: Callable[[], Mapping[str, Any]], explorer: Explorer | None, _: web.Request
) -> web.Response:
    shown = dict(status())
    if explorer is not None and shown.get("verdicts"):
        known = await explorer.lines([one["result_id"] for one in shown["verdicts"]])
        shown["verdicts"] = [one | known.get(one["result_id"], {}) for one in shown["verdicts"]]
    return json_response(shown | {"explorer": explorer is not None})


async def _report(check: Callable[[], HealthReport], _: web.Request) -> web.Response:
    report = check()
    notes = {"notes": report.notes} if report.notes else {}
    body = orjson.dumps({"ok": report.ok, "reasons": report.reasons, **notes})
    return web.Response(body=body, status=200 if report.ok else 503, content_type="application/json")
