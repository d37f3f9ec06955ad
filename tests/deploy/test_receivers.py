"""Alertmanager tells Slack, Teams and PagerDuty what fell, by how much, since when, and where to look."""

from __future__ import annotations

import json
import shutil
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from tests.integration.deadlines import until
from tests.integration.kafka import free_ports
from tests.integration.programs import answers, serving
from tests.loopback import on_loopback
from tests.places import ROOT
from tests.toolbox import tool

pytestmark = pytest.mark.tools
FOLDER = ROOT / "deploy" / "alertmanager"
SUMMARY = "Answers got worse: relevance has dropped (judgestream)."
INTERVAL = "the mean of the last hour is 1.30 (95% interval 1.03 to 2.85)"
EXPLORER = "https://quality.example.com/explore/incident/latest?metric=relevance"
RUNBOOK = "https://judgestream.github.io/judgestream/latest/alerts.html#judgestreamdrop"
TOLD = f"The baseline is 4.47; {INTERVAL}."
LABELS = {"alertname": "JudgestreamDrop", "severity": "critical", "metric": "relevance", "job": "judgestream"}
ALERT = {
    "labels": LABELS,
    "annotations": {"summary": SUMMARY, "description": TOLD, "runbook_url": RUNBOOK, "explorer": EXPLORER},
    "startsAt": "2026-11-22T01:30:00Z",
    "endsAt": "2126-11-22T01:30:00Z",
}
TEXT = f"{SUMMARY}\n{TOLD}\nSince 2026-11-22 01:30 UTC.\nAnswers and cause: {EXPLORER}\nWhat to do: {RUNBOOK}"


def _here(folder: Path, url: str) -> Path:
    shutil.copy(FOLDER / "judgestream.tmpl", folder)
    text = (FOLDER / "alertmanager.yml").read_text(encoding="utf-8")
    for name in ("slack", "teams"):
        (folder / name).write_text(f"{url}/{name}")
        text = text.replace(f"/run/secrets/{name}-url", str(folder / name))
    (folder / "key").write_text("k" * 32)
    key = f"routing_key_file: {folder / 'key'}\n        url: {url}/pagerduty"
    text = text.replace("routing_key_file: /run/secrets/pagerduty-key", key)
    text = text.replace("group_wait: 30s", "group_wait: 100ms")
    file = folder / "alertmanager.yml"
    file.write_text(text, encoding="utf-8")
    return file


async def _alertmanager(stack: AsyncExitStack, folder: Path, receivers: str) -> tuple[ClientSession, str]:
    (port,) = free_ports(1)
    at = f"http://127.0.0.1:{port}"
    places = (f"--config.file={_here(folder, receivers)}", f"--storage.path={folder}")
    listening = (f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=")
    command = (tool("alertmanager"), *places, *listening)
    is_ready = partial(answers, f"{at}/-/ready")
    await stack.enter_async_context(serving(*command, log=folder / "alertmanager.log", is_ready=is_ready))
    return await stack.enter_async_context(ClientSession()), at


@pytest.mark.parametrize(
    ("source", "muted", "told"),
    [
        pytest.param(
            {"alertname": "JudgestreamJudgeBreakerOpen", "endpoint": "a"},
            {"alertname": "JudgestreamJudgeFailing", "endpoint": "a"},
            {"alertname": "JudgestreamJudgeFailing", "endpoint": "b"},
            id="an endpoint that is down mutes its own failures",
        ),
        pytest.param(
            {"alertname": "JudgestreamNoWorker", "agent": "judge"},
            {"alertname": "JudgestreamNoVerdicts"},
            {"alertname": "JudgestreamDrop"},
            id="a missing part mutes what follows from it",
        ),
        pytest.param(
            {"alertname": "JudgestreamNoJudge"},
            {"alertname": "JudgestreamJudgeBreakerOpen", "endpoint": "a"},
            {"alertname": "JudgestreamNoVerdicts", "namespace": "another"},
            id="no judge mutes its endpoints, but not another namespace",
        ),
    ],
)
async def test_a_cause_mutes_its_own_symptoms(
    source: dict[str, str], muted: dict[str, str], told: dict[str, str], tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        session, at = await _alertmanager(stack, tmp_path, "http://127.0.0.1:9")
        common = {"job": "judgestream", "namespace": "qa", "severity": "warning"}
        alerts = [{"labels": {**common, **one}} for one in (source, muted, told)]
        async with session.post(f"{at}/api/v2/alerts", json=alerts) as answer:
            assert answer.status == 200
        inhibited: dict[str, bool] = {}

        async def processed() -> bool:
            async with session.get(f"{at}/api/v2/alerts") as answer:
                for one in await answer.json():
                    inhibited[json.dumps(one["labels"], sort_keys=True)] = bool(one["status"]["inhibitedBy"])
            return len(inhibited) == 3 and any(inhibited.values())

        await until(processed, "an inhibited alert")
        found = [inhibited[json.dumps(one["labels"], sort_keys=True)] for one in alerts]
        assert found == [False, True, False]


async def test_each_receiver_gets_title_and_text(tmp_path: Path) -> None:
    told: dict[str, Any] = {}

    async def take(request: web.Request) -> web.Response:
        told[request.path.strip("/")] = await request.json()
        return web.Response(status=202 if request.path == "/pagerduty" else 200, text="ok")

    app = web.Application()
    app.router.add_post("/{receiver}", take)
    async with on_loopback(app) as url, AsyncExitStack() as stack:
        session, at = await _alertmanager(stack, tmp_path, url)
        async with session.post(f"{at}/api/v2/alerts", json=[ALERT]) as answer:
            assert answer.status == 200
        await until(lambda: len(told) == 3, f"three receivers; see {tmp_path}")
    (slack,) = told["slack"]["attachments"]
    assert (slack["title"], slack["text"].strip()) == (f"DROP: {SUMMARY}", TEXT)
    teams = json.dumps(told["teams"])
    assert f"DROP: {SUMMARY}" in teams
    assert INTERVAL in teams
    pagerduty = told["pagerduty"]["payload"]
    assert (pagerduty["summary"], pagerduty["severity"]) == (f"DROP: {SUMMARY}", "critical")
    assert pagerduty["custom_details"]["answers"].strip() == TEXT
