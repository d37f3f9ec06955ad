"""A worker whose events have schemas in a registry."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import aiohttp
import fastavro

from judge.endpoints.clients import ScriptedChat
from streams.cli.commands.files import _newest
from streams.cli.session import Session
from streams.doctor.events import examine_events
from tests.integration.deadlines import until
from tests.integration.stage import REPLY, Stage, event
from tests.streams.intake.reading.registry.fake_registry import fake_registry

SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": name, "type": "string"} for name in ("event_id", "question", "answer")],
}


def framed(number: int, text: str) -> bytes:
    stream = io.BytesIO()
    value = {"event_id": text, "question": "How?", "answer": "So."}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), value)
    return b"\x00" + number.to_bytes(4) + stream.getvalue()


async def test_avro_events_are_judged_and_an_outage_holds_them(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """While the registry is down the worker is not ready and sets nothing aside; afterwards every event is
    judged. An event that violates its schema is a dead letter with the schema id. The doctor and `map` read
    the topic in the same way.
    """
    async with fake_registry() as registry:
        registry.add("ids/7", json.dumps(SCHEMA))
        registry.down = True
        stage = Stage(bootstrap_servers, tmp_path, changes={"ingest.registry": {"url": registry.url}})
        async with stage.worker(ScriptedChat([REPLY] * 10)) as (running, _):
            await stage.produce([framed(7, "a"), event(1), framed(7, "b"), framed(7, "c")[:-2]])

            async def told_of() -> bool:
                async with aiohttp.ClientSession() as session, session.get(f"{running.url}/readyz") as ready:
                    return "waiting for the schema registry" in await ready.text()

            await until(told_of, "trouble")
            assert await stage.dead_letters() == []
            registry.down = False
            await stage.holds(scores=3, dead=1)
        assert {one.event_id for one in await stage.results()} == {"a", "b", "e1"}
        (letter,) = await stage.dead_letters()
        assert letter.reason == "undecodable"
        assert "schema id 7" in letter.detail
        assert letter.value == framed(7, "c")[:-2]

        settings = stage.settings
        records, unread = await _newest(Session(settings), settings.topics.events, 10)
        assert [len(records), len(unread)] == [3, 1]
        found = await examine_events(settings, {}, 10)
        told = [one.detail for one in found]
        assert told[:2] == ["supports AVRO, JSON, PROTOBUF", "3 of the 4 newest records become events"]
        registry.down = True
        (finding,) = await asyncio.wait_for(examine_events(settings, {}, 10), 60)
        assert (finding.outcome, finding.subject) == ("failed", "schema registry")
