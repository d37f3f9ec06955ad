"""A sink worker sends verdicts from the results topic to receivers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted

from streams.intake.reading.otlp.request import spans
from streams.sinks import incidents
from tests.integration.deadlines import until
from tests.integration.stage import Chat, Stage
from tests.loopback import on_loopback
from tests.streams.results import alert, failed, scored


async def test_verdicts_and_incidents_are_sent_across_two_workers(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second worker continues from the offsets; an invalid result becomes a dead letter."""
    monkeypatch.setattr(incidents, "SETTLE_SECONDS", 0.5)
    monkeypatch.setenv("HOOK_SECRET", "a secret of some length")
    told: list[dict[str, Any]] = []

    async def take(request: web.Request) -> web.Response:
        assert request.headers["X-Judgestream-Signature"].startswith("sha256=")
        told.append(await request.json())
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", take)
    began = datetime.now(UTC)

    def raised(name: str, kind: str, seconds: float = 0, **fields: Any) -> bytes:
        moment = began + timedelta(seconds=seconds)
        told = alert(name * 32, kind, started_at=began, raised_at=moment, **fields)
        return told.model_dump_json().encode()

    docs: dict[str, Any] = {"metric": "coverage", "labels": {"app": "docs"}}
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    results = [
        scored(number, 1 + number % 5).model_copy(update={"trace_id": trace_id}) for number in range(20)
    ]
    async with on_loopback(app) as url:
        hook = {"kind": "incident_webhook", "url": f"{url}/hook", "secret_env": "HOOK_SECRET"}
        sinks = {"collector": {"kind": "otlp_topic"}, "oncall": hook}
        stage = Stage(bootstrap_servers, tmp_path, changes={"sinks": sinks})
        async with stage.worker(Chat(), agents=("sink",)) as (running, _):
            assert running.group_id.endswith(".sink")
            values = [one.model_dump_json().encode() for one in results]
            await stage.produce([*values, b"no result"], topic="scores")
            await stage.produce([raised("a", "drop"), raised("c", "drop", 0.1, **docs)], topic="alerts")
            await stage.holds(at_least=True, evaluations=20)
            await until(lambda: len(told) == 1, "the incident")
        async with stage.worker(Chat(), agents=("sink",)):
            await stage.produce([failed(99).model_dump_json().encode()], topic="scores")
            ended = [raised("b", "recovered"), raised("d", "recovered", 1, **docs)]
            await stage.produce(ended, topic="alerts")
            await stage.holds(at_least=True, evaluations=21)
            await until(lambda: len(told) >= 2, "its end")
    records = await stage.read("evaluations")
    events = [span.attributes["judgestream.event_id"] for record in records for span in spans(record.value)]
    assert sorted(events) == sorted([*(f"e{number}" for number in range(20)), "e99"])
    assert {record.key for record in records} == {trace_id.encode(), None}
    assert [letter.reason for letter in await stage.dead_letters()] == ["undecodable"]
    assert [(one["event"], one["incident_id"]) for one in told] == [
        ("incident_began", "a" * 12),
        ("incident_ended", "a" * 12),
    ]
    assert told[0]["parts_total"] == 2
