"""Events whose schemas are in a registry: a fake one, and Apicurio with events of each schema type."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import tarfile
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import fastavro
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from streams.cli.commands.files import _newest
from streams.cli.session import Session
from streams.doctor.events import examine_events
from streams.errors import DecodeError
from streams.intake.reading.registry.unpacking import RegistryClient, Unpacking
from tests.integration.deadlines import until
from tests.integration.kafka import downloaded, free_ports, maven
from tests.integration.programs import answers, serving
from tests.integration.stage import REPLY, Stage, event
from tests.judge.scripted import ScriptedChat
from tests.places import ROOT
from tests.streams.intake.reading.registry.fake_registry import fake_registry
from tests.threaded_broker import broker_in_thread

FIELDS: list[dict[str, Any]] = [
    {"name": name, "type": "string"} for name in ("event_id", "question", "answer")
]
SCHEMA = {"type": "record", "name": "Event", "fields": FIELDS}


def avro(number: int, schema: dict[str, Any], *named: dict[str, Any], **fields: Any) -> bytes:
    names: dict[str, Any] = {}
    for one in named:
        fastavro.parse_schema(one, named_schemas=names)
    stream = io.BytesIO()
    value = {"question": "How?", "answer": "So.", **fields}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas=names), value)
    return b"\x00" + number.to_bytes(4) + stream.getvalue()


async def test_avro_events_are_judged_and_an_outage_holds_them(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """During an outage nothing is set aside. The doctor and `map` read the topic in the same way."""
    first, second, third = (avro(7, SCHEMA, event_id=one) for one in "abc")
    async with fake_registry() as registry:
        registry.add("ids/7", json.dumps(SCHEMA))
        registry.down = True
        stage = Stage(bootstrap_servers, tmp_path, changes={"ingest.registry": {"url": registry.url}})
        async with stage.worker(ScriptedChat([REPLY] * 10)) as (running, _):
            await stage.produce([first, event(1), second, third[:-2]])

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
        assert letter.value == third[:-2]

        settings = stage.settings
        records, unread = await _newest(Session(settings), settings.topics.events, 10)
        assert [len(records), len(unread)] == [3, 1]
        found = await examine_events(settings, {}, 10)
        told = [one.detail for one in found]
        assert told[:2] == ["supports AVRO, JSON, PROTOBUF", "3 of the 4 newest records become events"]
        registry.down = True
        (finding,) = await asyncio.wait_for(examine_events(settings, {}, 10), 60)
        assert (finding.outcome, finding.subject) == ("failed", "schema registry")


# Apicurio Registry from its published artifact, with Confluent's interface and schemas in memory.
_VERSION = "3.0.9"
"""The last one for Java 17."""
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"
_CACHE = ROOT / ".cache" / "apicurio"
_JAVA_OPTIONS = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Apicurio:
    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        self._session = session

    async def register(self, subject: str, schema: str, kind: str = "AVRO", *names: tuple[str, str]) -> int:
        references = [{"name": name, "subject": other, "version": 1} for name, other in names]
        body: dict[str, Any] = {"schema": schema, "schemaType": kind, "references": references}
        async with self._session.post(f"{self.url}/subjects/{subject}/versions", json=body) as response:
            assert response.status == 200, await response.text()
            return int((await response.json())["id"])


@contextlib.asynccontextmanager
async def apicurio(directory: Path) -> AsyncIterator[Apicurio]:
    folder = await asyncio.to_thread(downloaded, _CACHE / _VERSION, _fetch)
    jar = next(folder.glob("*-runner.jar"))
    (port,) = free_ports(1)
    env = {**os.environ, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    command = ("java", *_JAVA_OPTIONS, "-jar", jar)
    async with aiohttp.ClientSession() as session:
        registry = Apicurio(port, session)
        is_ready = partial(answers, f"{registry.url}/schemas/types")
        async with serving(*command, log=directory / "apicurio.log", is_ready=is_ready, env=env):
            yield registry


def _fetch(folder: Path) -> None:
    maven("dependency:copy", f"-Dartifact={_ARTIFACT}", into=folder.parent)
    with tarfile.open(next(folder.parent.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")


NAMED = {"type": "record", "name": "Named", "namespace": "qa", "fields": [{"name": "text", "type": "string"}]}
AVRO = {
    "type": "record",
    "name": "Event",
    "namespace": "qa",
    "fields": [
        *FIELDS,
        {"name": "context", "type": {"type": "map", "values": "string"}},
        {"name": "other", "type": ["null", "qa.Named"], "default": None},
    ],
}
JSON_SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
NAMED_PROTO = 'syntax = "proto3"; package qa; message Named { string text = 1; }'
EVENT_PROTO = """
syntax = "proto3";
package qa;
import "named.proto";
import "google/protobuf/timestamp.proto";
message Envelope {
  message Event {
    string event_id = 1; // as the producer counts
    string question = 2;
    string answer = 3;
    map<string, string> context = 4;
    Named other = 5;
    google.protobuf.Timestamp occurred_at = 6;
  }
}
"""


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def protobuf(number: int) -> bytes:
    """A message of the first nested type: message indexes 0 and 0."""
    texts = [field(at, text) for at, text in enumerate((b"protobuf", b"How?", b"So."), 1)]
    page = field(4, field(1, b"Page-1") + field(2, b"Text."))
    moment = field(6, Timestamp(seconds=int(time.time())).SerializeToString())
    body = b"".join(texts) + page + field(5, field(1, b"x")) + moment
    return b"\x00" + number.to_bytes(4) + b"\x04\x00\x00" + body


@pytest.mark.kafka  # needs Java and Maven, as Apache Kafka does
@pytest.mark.timeout(300)
async def test_events_of_each_kind_are_judged(tmp_path: Path) -> None:
    """References are included; an unknown schema is an error with its id or GUID."""
    async with apicurio(tmp_path) as registry:
        await registry.register("named", json.dumps(NAMED))
        of_avro = await registry.register("event", json.dumps(AVRO), "AVRO", ("qa.Named", "named"))
        of_json = await registry.register("event-json", json.dumps(JSON_SCHEMA), "JSON")
        await registry.register("named-proto", NAMED_PROTO, "PROTOBUF")
        named = ("named.proto", "named-proto")
        of_protobuf = await registry.register("event-proto", EVENT_PROTO, "PROTOBUF", named)
        as_json = json.dumps({"event_id": "json", "question": "How?", "answer": "So."}).encode()
        as_avro = avro(of_avro, AVRO, NAMED, event_id="avro", context={}, other={"text": "x"})
        records = [as_avro, b"\x00" + of_json.to_bytes(4) + as_json, protobuf(of_protobuf)]

        with broker_in_thread() as bootstrap_servers:
            stage = Stage(bootstrap_servers, tmp_path, changes={"ingest.registry": {"url": registry.url}})
            async with stage.worker(ScriptedChat([REPLY] * 3)):
                await stage.produce(records)

                async def judged() -> bool:
                    letters = [one.detail for one in await stage.dead_letters()]
                    assert letters == []
                    return len(await stage.results()) == 3

                await until(judged, "a result of each kind", deadline_seconds=90)
            assert {one.event_id for one in await stage.results()} == {"avro", "json", "protobuf"}

        unpacking = Unpacking(RegistryClient(registry.url, patient=False), unknown_seconds=0)
        assert sorted(await unpacking.client.kinds()) == ["AVRO", "JSON", "PROTOBUF"]
        read = json.loads(await unpacking.json(protobuf(of_protobuf), ()) or b"")
        assert read["context"] == {"Page-1": "Text."}
        assert read["other"] == {"text": "x"}
        with pytest.raises(DecodeError, match="schema id 4242 is not known to the registry"):
            await unpacking.json(b"\x00" + (4242).to_bytes(4) + as_json, ())
        with pytest.raises(DecodeError, match=r"schema GUID 0101.* is not known to the registry"):
            await unpacking.json(as_json, [("__value_schema_id", b"\x01" * 17)])
        await unpacking.close()
