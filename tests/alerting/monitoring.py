"""Prometheus and Alertmanager on loopback, with the shipped rules on a faster clock, and a webhook."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

from tests.integration.deadlines import until
from tests.integration.kafka import free_ports
from tests.integration.programs import answers, serving
from tests.loopback import on_loopback
from tests.rules.rule_files import RULE_FILES, hurried
from tests.toolbox import tool

_START_SECONDS = 30.0


class Monitoring:
    """Queries of Prometheus, and the notifications of Alertmanager."""

    def __init__(self, session: ClientSession, prometheus: str) -> None:
        self._session = session
        self._prometheus = prometheus
        self.received: list[dict[str, Any]] = []
        """The alerts that the webhook received, in order; `status` is firing or resolved."""

    async def query(self, expr: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = (await self._ask("query", query=expr))["result"]
        return result

    async def _ask(self, what: str, **parameters: str) -> Any:
        async with self._session.get(f"{self._prometheus}/api/v1/{what}", params=parameters) as answer:
            body = await answer.json()
        assert body["status"] == "success", body
        return body["data"]

    async def rule_errors(self) -> list[str]:
        return [
            f"{rule['name']}: {rule['lastError']}"
            for group in (await self._ask("rules"))["groups"]
            for rule in group["rules"]
            if rule.get("lastError")
        ]

    async def notified(self, status: str, alertname: str, job: str) -> dict[str, Any]:
        """Wait for such an alert at the webhook, and return it."""

        def found() -> list[dict[str, Any]]:
            labels = {"alertname": alertname, "job": job}.items()
            return [
                one for one in self.received if one["status"] == status and labels <= one["labels"].items()
            ]

        await until(lambda: bool(found()), f"{alertname} {status} at the webhook", deadline_seconds=120)
        return found()[0]

    async def take(self, request: web.Request) -> web.Response:
        self.received.extend((await request.json())["alerts"])
        return web.Response()


@asynccontextmanager
async def monitoring(
    folder: Path, scraped: Mapping[str, Sequence[str]], *, factor: int
) -> AsyncIterator[Monitoring]:
    """Run both on jobs' hosts and ports, with every duration of rules and scrapes divided by the factor."""
    scrape = f"{60_000 // factor}ms"
    async with AsyncExitStack() as stack:
        prometheus, alertmanager = free_ports(2)
        session = await stack.enter_async_context(ClientSession())
        made = Monitoring(session, f"http://127.0.0.1:{prometheus}")
        app = web.Application()
        app.router.add_post("/", made.take)
        webhook = await stack.enter_async_context(on_loopback(app))
        rules = []
        for path in RULE_FILES:
            rules.append(str(folder / path.name))
            (folder / path.name).write_text(
                hurried(path.read_text(encoding="utf-8"), factor), encoding="utf-8"
            )
        route = {"receiver": "test", "group_by": ["..."], "group_wait": "100ms", "group_interval": "500ms"}
        webhooks = [{"url": webhook, "send_resolved": True}]
        _write(
            folder / "alertmanager.yaml",
            {"route": route, "receivers": [{"name": "test", "webhook_configs": webhooks}]},
        )
        every = ("scrape_interval", "scrape_timeout", "evaluation_interval")
        _write(
            folder / "prometheus.yaml",
            {
                "global": dict.fromkeys(every, scrape),
                "rule_files": rules,
                "alerting": {"alertmanagers": [_targets(f"127.0.0.1:{alertmanager}")]},
                "scrape_configs": [{"job_name": job, **_targets(*hosts)} for job, hosts in scraped.items()],
            },
        )
        of_alertmanager = [f"--storage.path={folder}/alertmanager", "--cluster.listen-address="]
        of_prometheus = ["--query.lookback-delta=2s", "--rules.alert.resend-delay=1s"]
        for name, port, options in (
            ("alertmanager", alertmanager, of_alertmanager),
            ("prometheus", prometheus, [f"--storage.tsdb.path={folder}/data", *of_prometheus]),
        ):
            at = (f"--config.file={folder}/{name}.yaml", f"--web.listen-address=127.0.0.1:{port}")
            is_ready = partial(answers, f"http://127.0.0.1:{port}/-/ready")
            log = folder / f"{name}.log"
            await stack.enter_async_context(
                serving(tool(name), *at, *options, log=log, is_ready=is_ready, seconds=_START_SECONDS)
            )
        yield made


def _write(path: Path, values: object) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")  # JSON is YAML


def _targets(*targets: str) -> dict[str, Any]:
    return {"static_configs": [{"targets": list(targets)}]}
