"""What is fuzzed: every place where foreign bytes enter, with the errors that it may raise and no other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from judge.endpoint.completion import NoCompletionError, read_completion
from judge.endpoint.refusals import error_for_status, retry_after_seconds
from judge.errors import EventError, JudgeError, PromptPackError
from judge.metrics.packs.pack import parse_pack
from judge.metrics.registry import build_metric
from judge.metrics.replies.reply import extract_object
from judge.text.plain_yaml import PlainYamlError, read_yaml
from judge.text.redaction import KINDS, Redactor
from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.reading import Ingest
from streams.web.hosts import is_own_host
from tests.judge.tasks import make_task

SEEDS: Final = Path(__file__).parent / "seeds"
_INGEST: Final = Ingest(max_event_bytes=1_000_000)
_MAPPED: Final = Ingest(
    max_event_bytes=1_000_000,
    mapping={"event_id": "id", "question": "q[0].text", "answer": "join(' ', a)", "labels.app": "meta.app"},
)
_METRICS: Final = {
    (name, mode): build_metric(name, mode=mode)
    for name in ("coverage", "relevance")
    for mode in ("evidence", "verbatim")
}
_REDACTOR: Final = Redactor(KINDS)
_NOW: Final = datetime(2026, 11, 21, tzinfo=UTC)


def _decode(data: bytes) -> None:
    """A record: headers by line before an empty line, then the value."""
    head, found, value = data.partition(b"\n\n")
    lines = head.split(b"\n") if found else []
    headers = [(name.decode("latin-1"), rest) for name, _, rest in (line.partition(b":") for line in lines)]
    for ingest in (_INGEST, _MAPPED):
        with contextlib.suppress(DecodeError):
            event = ingest.decode(value if found else data, headers, 0)
            fields = ingest.sampling_fields(value if found else data, headers, {"app"})
            assert (fields.event_id, fields.trace_id) == (event.event_id, event.trace_id)
            assert QAEvent.model_validate_json(event.model_dump_json()) == event


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _redact(data: bytes) -> None:
    text = _text(data)
    once = _REDACTOR.redact(text)
    assert len(once) <= 4 * len(text) + 10


def _reply(data: bytes) -> None:
    with contextlib.suppress(EventError):
        orjson.dumps(extract_object(_text(data), key="score"))


def _verdict(data: bytes) -> None:
    """An answer, a reference that is a page, too, and a reply, separated by zero bytes."""
    answer, _, rest = data.partition(b"\0")
    page, _, reply = rest.partition(b"\0")
    for (name, _), metric in _METRICS.items():
        task = make_task(
            name,
            answer=_text(answer),
            reference=_text(page),
            context={"Page-1": _text(page), "2": "Rain fell."},
        )
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
    headers = {"retry-after": _text(data[2:40]), "date": _text(data[2:40])}
    error = error_for_status(
        endpoint="a",
        status=status,
        body=body,
        headers=headers,
        now=_NOW,
        schema_sent=bool(data[:1]),
        secret="secret-1",
    )
    assert isinstance(error, JudgeError)
    retry_after_seconds(headers, now=_NOW)


def _yaml(data: bytes) -> None:
    with contextlib.suppress(PlainYamlError):
        read_yaml(_text(data))
    for dialect in ("markdown", "yaml"):
        with contextlib.suppress(PromptPackError):
            parse_pack(data, dialect=dialect, origin="fuzz")


def _host(data: bytes) -> None:
    is_own_host([data.decode("latin-1")], ("*.example.com",))


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "decode": _decode,
    "redact": _redact,
    "reply": _reply,
    "verdict": _verdict,
    "completion": _completion,
    "refusal": _refusal,
    "yaml": _yaml,
    "host": _host,
}


def seeds(target: str) -> list[bytes]:
    """What a target begins with: honest inputs, and those that broke something once."""
    return [path.read_bytes() for path in sorted((SEEDS / target).iterdir())]
