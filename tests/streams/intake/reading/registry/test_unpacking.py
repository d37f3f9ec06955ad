from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from functools import cache
from typing import Any
from uuid import UUID

import fastavro
import pytest

from streams.errors import DecodeError, ReaderDownError
from streams.intake.reading.registry.decoding import AvroSchema, descriptors
from streams.intake.reading.registry.unpacking import RegistryClient, Unpacking
from tests.integration.deadlines import until
from tests.streams.intake.reading.registry.fake_registry import FakeRegistry, fake_registry

GUID = UUID("0af76519-16cd-43dd-8448-eb211c80319c")
PAGE = {"type": "record", "name": "Page", "namespace": "qa", "fields": [{"name": "text", "type": "string"}]}
FIELDS: list[dict[str, Any]] = [
    {"name": "event_id", "type": "string"},
    {"name": "question", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "reference", "type": ["null", "string"], "default": None},
    {"name": "pages", "type": {"type": "array", "items": "Page"}},
]
EVENT = {"type": "record", "name": "Event", "namespace": "qa", "fields": FIELDS}
WORDS = {"event_id": "e1", "question": "How?", "at": 1_000, "reference": None, "pages": [{"text": "So."}]}
PAGE_FILE = {"name": "page.proto", "subject": "page", "version": 1}
READ = {**WORDS, "at": "1970-01-01T00:00:01+00:00"}


@pytest.fixture
async def registry(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeRegistry]:
    monkeypatch.setattr("streams.intake.reading.registry.unpacking.FIRST_WAIT_SECONDS", 0.02)
    async with fake_registry() as registry:
        yield registry


@pytest.fixture
async def unpacking(registry: FakeRegistry) -> AsyncIterator[Unpacking]:
    unpacking = Unpacking(RegistryClient(registry.url), unknown_seconds=0)
    yield unpacking
    await unpacking.close()


def framed(number: int, payload: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4) + payload


def avro(schema: Any, value: Any, *named: Any) -> bytes:
    names: dict[str, Any] = {}
    for one in named:
        fastavro.parse_schema(one, named_schemas=names)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas=names), value)
    return stream.getvalue()


@cache
def proto(text: str, **needs: str) -> str:
    """A file's descriptor, as registries serialize it."""
    texts = {name: f'syntax = "proto3"; package qa; {of}' for name, of in (needs | {"own": text}).items()}
    return base64.b64encode(descriptors(texts)[-1]).decode()


async def test_avro_is_read_with_named_schemas(registry: FakeRegistry, unpacking: Unpacking) -> None:
    """Concurrent records fetch a schema once."""
    named = {"name": "qa.Page", "subject": "pages/v", "version": 2}
    registry.add("ids/7", json.dumps(EVENT), references=[named])
    registry.add("subjects/pages%2Fv/versions/2", json.dumps(PAGE))
    registry.add("subjects/pages/v/versions/2", json.dumps(PAGE))  # as the server decodes the path %2F
    record = framed(7, avro(EVENT, WORDS, PAGE))
    read = await asyncio.gather(*(unpacking.json(record, ()) for _ in range(5)))
    assert [json.loads(one or b"") for one in read] == [READ] * 5
    assert registry.asked["ids/7"] == 1


async def test_json_is_what_follows_the_prefix(registry: FakeRegistry, unpacking: Unpacking) -> None:
    """Or its GUID or id is in a header; a record without a schema id is unchanged."""
    registry.add("ids/8", "{}", "JSON")
    registry.add("ids/256", "{}", "JSON")
    registry.add(f"guids/{GUID}", "{}", "JSON")
    assert await unpacking.json(framed(8, b'{"a": 1}'), ()) == b'{"a": 1}'
    header = ("__value_schema_id", b"\x01" + GUID.bytes)
    assert await unpacking.json(b'{"a": 1}', (("other", None), header)) == b'{"a": 1}'
    with_id = ("__value_schema_id", b"\x00\x00\x00\x01\x00")
    assert await unpacking.json(b"{}", [with_id]) == await unpacking.json(b"{}", ()) == b"{}"
    assert registry.asked["ids/256"] == 1
    assert await unpacking.json(None, ()) is None


@pytest.mark.parametrize(
    ("path", "body", "read"),
    [
        # Zigzag varints: a count and indexes; a lone 0 is the first message.
        (b"\x00", b"\x0a\x02e1\x12\x04\x0a\x02So", {"event_id": "e1", "page": {"text": "So"}}),
        (b"\x02\x00", b"\x0a\x02e2", {"event_id": "e2"}),  # one index: 0
        (b"\x04\x02\x00", b"\x0a\x02in", {"inner": "in"}),  # two indexes, 1 and 0: first in the second
    ],
)
@pytest.mark.parametrize("in_header", [False, True])
async def test_protobuf_is_read_by_the_path_to_its_message(
    registry: FakeRegistry, unpacking: Unpacking, path: bytes, body: bytes, read: Any, in_header: bool
) -> None:
    page = "message Page { string text = 1; }"
    text = """import "page.proto"; import "google/protobuf/timestamp.proto";
    message Event { string event_id = 1; Page page = 2; google.protobuf.Timestamp at = 3; }
    message Outer { string x = 1; message Inner { string inner = 1; } }"""
    for place in ("ids/9", f"guids/{GUID}"):
        serialized = proto(text, **{"page.proto": page})
        registry.add(place, "...", "PROTOBUF", serialized=serialized, references=[PAGE_FILE])
    registry.add("subjects/page/versions/1", "...", "PROTOBUF", serialized=proto(page))
    header = ("__value_schema_id", b"\x01" + GUID.bytes + path)
    value, headers = (body, [header]) if in_header else (framed(9, path + body), [])
    assert json.loads(await unpacking.json(value, headers) or b"") == read


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (framed(7, b"\x06e1"), "does not match its Avro schema (EOFError"),
        (framed(7, avro(PAGE, {"text": "a"}) + b"x"), "has 1 bytes more than its Avro schema defines"),
        (framed(9, b""), "names no message of its Protobuf schema"),
        (framed(9, b"\x02\x0c"), "names message [6], which its schema does not have"),
        (framed(9, b"\x00\xff\xff"), "is not a qa.Event of its Protobuf schema"),
        (framed(404, b"{}"), "schema id 404 is not known to the registry"),
        (framed(5, b"{}"), "schema id 5 cannot be used: is of kind 'XML'"),
        (framed(6, b"{}"), "schema id 6 cannot be used: is not an Avro schema"),
        (b"\x00\x01", "does not name a registry schema"),
    ],
)
async def test_a_mismatch_names_the_schema_id(
    registry: FakeRegistry, unpacking: Unpacking, value: bytes, said: str
) -> None:
    registry.add("ids/5", "<xml/>", "XML")
    registry.add("ids/6", '{"type": "nothing"}')
    registry.add("ids/7", json.dumps(PAGE))
    registry.add("ids/9", "", "PROTOBUF", serialized=proto("message Event { string event_id = 1; }"))
    with pytest.raises(DecodeError) as error:
        await unpacking.json(value, ())
    assert said in error.value.detail
    assert len(value) < 5 or f"schema id {int.from_bytes(value[1:5])}" in error.value.detail


async def test_an_unknown_schema_is_waited_for_and_then_remembered(registry: FakeRegistry) -> None:
    """It may not have reached all nodes."""
    now = 0.0
    unpacking = Unpacking(RegistryClient(registry.url), unknown_seconds=60, clock=lambda: now)
    reading = asyncio.create_task(unpacking.json(framed(3, b"{}"), ()))
    await until(lambda: registry.asked["ids/3"] >= 1, "the first request", deadline_seconds=30)
    registry.add("ids/3", "{}", "JSON")
    assert await asyncio.wait_for(reading, 30) == b"{}"

    impatient = Unpacking(RegistryClient(registry.url), unknown_seconds=0, clock=lambda: now)
    for _ in range(3):
        with pytest.raises(DecodeError, match="schema id 4 is not known"):
            await impatient.json(framed(4, b"{}"), ())
    assert registry.asked["ids/4"] == 1
    registry.add("ids/4", "{}", "JSON")
    now = 61
    assert await impatient.json(framed(4, b"{}"), ()) == b"{}"
    await unpacking.close()
    await impatient.close()


async def test_an_outage_of_the_registry_holds_reading(registry: FakeRegistry) -> None:
    """Without `patient` it raises ReaderDownError."""
    registry.add("ids/3", "{}", "JSON")
    registry.down = True
    patient = Unpacking(RegistryClient(registry.url, auth="Bearer t"), unknown_seconds=0)
    reading = asyncio.create_task(patient.json(framed(3, b"{}"), ()))
    await until(lambda: patient.client.trouble is not None, "the trouble", deadline_seconds=30)
    assert patient.client.trouble == f"{registry.url} answers 503"
    registry.down = False
    assert await asyncio.wait_for(reading, 30) == b"{}"
    await until(lambda: patient.client.trouble is None, "the end of the trouble", deadline_seconds=30)
    assert registry.authorizations == {"Bearer t"}
    await patient.close()

    impatient = RegistryClient("http://127.0.0.1:9", patient=False)
    with pytest.raises(ReaderDownError, match="does not answer"):
        await impatient.kinds()
    await impatient.close()


def test_hostile_avro_ends() -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    read = AvroSchema(json.dumps(node)).read
    assert json.loads(read(b"\x02\x02\x00")) == {"next": {"next": {"next": None}}}
    with pytest.raises(DecodeError, match="RecursionError"):
        read(b"\x02" * 100_000 + b"\x00")
    empty = {"type": "record", "name": "E", "fields": []}
    for items in ("null", empty, {"type": "fixed", "name": "F", "size": 0}):
        with pytest.raises(ValueError, match="with zero-byte items"):
            AvroSchema(json.dumps({"type": "array", "items": items}))


async def test_protobuf_is_read_by_the_text_of_a_schema(registry: FakeRegistry, unpacking: Unpacking) -> None:
    text = """
    syntax = "proto3"; package qa.v1;
    import public "page.proto";
    enum Level { NONE = 0; HIGH = 1; }
    message Outer {
      message Inner { string words = 1; }
      map<string, Inner> named = 1;
      repeated qa.Page pages = 2;
      Level level = 3;
      optional string note = 4 [json_name = "n"];
    }
    """
    registry.add("ids/9", text, "PROTOBUF", serialized=text, references=[PAGE_FILE])
    page_text = 'syntax = "proto3"; package qa; message Page { string text = 1; }'
    registry.add("subjects/page/versions/1", page_text, "PROTOBUF", serialized=page_text)
    body = b"\x0a\x08\x0a\x01k\x12\x03\x0a\x01w\x12\x03\x0a\x01t\x18\x01\x22\x00"
    read = json.loads(await unpacking.json(framed(9, b"\x00" + body), ()) or b"")
    assert read == {"named": {"k": {"words": "w"}}, "pages": [{"text": "t"}], "level": "HIGH", "note": ""}
    inner = await unpacking.json(framed(9, b"\x04\x00\x00\x0a\x01w"), ())
    assert inner == b'{"words":"w"}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("message A { string s = x; }", "schema.proto:1:24: Expected field number"),
        ("message A { " * 5_000, "schema.proto:1:"),
        ('import "none.proto";', 'schema.proto:1:1: Import "none.proto" was not found'),
        ('import "../none.proto";', "../none.proto"),
    ],
)
async def test_an_invalid_protobuf_schema_is_named(
    registry: FakeRegistry, unpacking: Unpacking, text: str, said: str
) -> None:
    registry.add("ids/9", text, "PROTOBUF", serialized=text)
    with pytest.raises(DecodeError) as error:
        await unpacking.json(framed(9, b"\x00"), ())
    assert said in error.value.detail


def test_a_schema_is_compiled_without_a_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root file system of a pod is read-only."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: (_ for _ in ()).throw(FileNotFoundError("none")))
    assert descriptors({"a.proto": 'syntax = "proto3"; message A {}'})
    monkeypatch.setattr("streams.intake.reading.registry.decoding.SHARED_MEMORY", "/none")
    with pytest.raises(ValueError, match="let TMPDIR name a folder"):
        descriptors({"a.proto": 'syntax = "proto3"; message A {}'})
