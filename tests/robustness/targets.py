"""The fuzz targets: every entry of foreign bytes, with the errors that it may raise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson
from google.protobuf import descriptor_pb2, text_format
from pydantic import ValidationError

from judge.endpoints.payloads import NoCompletionError, read_completion
from judge.endpoints.refusals import error_for_status, retry_after_seconds
from judge.errors import EventError, JudgeError, PromptPackError
from judge.metrics.packs.pack import parse_pack
from judge.metrics.replies import extract_object
from judge.text.plain_yaml import PlainYamlError, read_yaml
from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.reading.decode import JsonReader
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.registry.decoding import AvroSchema, ProtobufSchema
from streams.intake.reading.registry.unpacking import message_path, wire_form
from streams.kafka.decoding import HEAD
from streams.kafka.patches import install
from streams.settings.problems import explain
from streams.settings.tree import Settings
from streams.web.port import is_own_host
from tests.judge.tasks import make_task
from tests.robustness.readers import BY_PACK, INGEST, METRICS, OTLP, REDACTOR
from tests.streams.kafka.logs import batch, signed, taken

SEEDS: Final = Path(__file__).parent / "seeds"
_MAPPED: Final = JsonReader(
    max_event_bytes=1_000_000,
    mapping={"event_id": "id", "question": "q[0].text", "answer": "join(' ', a)", "labels.app": "meta.app"},
)
_SPANS: Final = OtlpReader(unit="span", max_event_bytes=1_000_000)
_AVRO: Final = (
    AvroSchema(
        '{"type": "record", "name": "E", "fields": ['
        '{"name": "answer", "type": "string"}, {"name": "n", "type": ["null", "E"]}]}'
    ),
    AvroSchema(
        '{"type": "array", "items": {"type": "map", "values": '
        '{"type": "bytes", "logicalType": "decimal", "precision": 9}}}'
    ),
)
_PROTO: Final = """
name: "e.proto" syntax: "proto3" message_type {
  name: "E"
  field { name: "answer" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "inner" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".E" }
  field { name: "n" number: 3 label: LABEL_REPEATED type: TYPE_DOUBLE }
}
"""
_FILE: Final = text_format.Parse(_PROTO, descriptor_pb2.FileDescriptorProto())
_PROTOBUF: Final = ProtobufSchema((_FILE.SerializeToString(),))
_NOW: Final = datetime(2026, 11, 21, tzinfo=UTC)


def _decode(data: bytes) -> None:
    """A record: headers as lines up to an empty line, then the value."""
    head, found, value = data.partition(b"\n\n")
    lines = head.split(b"\n") if found else []
    headers = [(name.decode("latin-1"), rest) for name, _, rest in (line.partition(b":") for line in lines)]
    for ingest in (INGEST, _MAPPED):
        with contextlib.suppress(DecodeError):
            event = ingest.decode(value if found else data, headers, 0)
            assert QAEvent.model_validate_json(event.model_dump_json()) == event


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _redact(data: bytes) -> None:
    text = _text(data)
    once = REDACTOR.redact(text)
    assert len(once) <= 4 * len(text) + 10


def _reply(data: bytes) -> None:
    with contextlib.suppress(EventError):
        orjson.dumps(extract_object(_text(data), key="score"))


def _verdict(data: bytes) -> None:
    """An answer, a reference that is also a page, and a reply, separated by zero bytes."""
    answer, _, rest = data.partition(b"\0")
    page, _, reply = rest.partition(b"\0")
    for metric in (*METRICS.values(), *BY_PACK.values()):
        pages = {"Page-1": _text(page), "2": "Rain fell."}
        task = make_task(metric.name, answer=_text(answer), reference=_text(page), context=pages)
        with contextlib.suppress(EventError):
            metric.prepare(task)
            outcome = metric.interpret(task, _text(reply))
            orjson.dumps(outcome.evidence)


def _completion(data: bytes) -> None:
    with contextlib.suppress(NoCompletionError):
        read_completion(data)


def _refusal(data: bytes) -> None:
    """A status in two bytes, then the body."""
    status = 300 + int.from_bytes(data[:2], "big") % 300
    try:
        body = orjson.loads(data[2:])
    except ValueError:
        body = _text(data[2:])
    about = {"endpoint": "a", "schema_sent": bool(data[:1]), "secret": "secret-1"}
    assert isinstance(error_for_status(status=status, body=body, **about), JudgeError)  # type: ignore[arg-type]
    retry_after_seconds({"retry-after": _text(data[2:40]), "date": _text(data[2:40])}, now=_NOW)


def _yaml(data: bytes) -> None:
    with contextlib.suppress(PlainYamlError):
        document = read_yaml(_text(data))
        try:
            Settings.model_validate(document)
        except ValidationError as error:
            explain(error, Settings)
    for dialect in ("markdown", "yaml"):
        with contextlib.suppress(PromptPackError):
            parse_pack(data, dialect=dialect, origin="fuzz")


def _otlp(data: bytes) -> None:
    for reader in (OTLP, _SPANS):
        with contextlib.suppress(DecodeError):
            heads = {head.group for head in reader.heads(data)}
            traces = reader.parts(data)
            assert set(traces) <= heads
            for spans in traces.values():
                for event in reader.read(spans).events:
                    assert QAEvent.model_validate_json(event.model_dump_json()) == event


def _schema(data: bytes) -> None:
    """A record in Confluent's wire format, read with Avro and Protobuf schemas, recursive ones included."""
    with contextlib.suppress(DecodeError):
        form = wire_form(data, ())
        if form is None:
            return
        for avro in _AVRO:
            with contextlib.suppress(DecodeError):
                orjson.loads(avro.read(form[1]))
        orjson.loads(_PROTOBUF.read(*message_path(form[1])))


def _batch(data: bytes) -> None:
    """A batch of a broker: codec, number of records and their bytes, under a valid checksum."""
    install()
    head = bytearray(batch([b"x"] * 3)[: HEAD.size])
    head[22] = data[0] % 8 if data else 0
    head[8:12] = (HEAD.size - 12 + len(data[1:])).to_bytes(4, "big")
    found, following = taken(signed(bytes(head) + data[1:]))
    assert following == 3
    assert [one.offset for one in found] == sorted({one.offset for one in found})


def _host(data: bytes) -> None:
    is_own_host([data.decode("latin-1")])


_ALL: Final = (
    _decode, _redact, _reply, _verdict, _completion, _refusal, _yaml, _otlp, _schema, _batch, _host
)  # fmt: skip
TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    target.__name__.removeprefix("_"): target for target in _ALL
}


def seeds(target: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((SEEDS / target).iterdir())]
