"""Every function that reads foreign text, by name: texts of events, records and judge replies."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from judge.chat import ChatRequest
from judge.endpoints.payloads import read_completion
from judge.endpoints.refusals import duration_seconds, error_for_status, retry_after_seconds
from judge.errors import EventError
from judge.evaluate.evaluator import estimated_tokens, repair_request
from judge.metric import Metric
from judge.metrics.code import CodeMetric
from judge.metrics.packs.pack import parse_pack
from judge.metrics.registry import BUILT_IN, build_metric, metric_names
from judge.metrics.replies import extract_object
from judge.text.citations import page_number, read_citations
from judge.text.normal import (
    TextIndex,
    is_blank,
    neutralize,
    normalise,
    quoted,
    without_lone_surrogates,
)
from judge.text.printable import printable
from judge.text.redaction import KINDS, Masker, Redactor
from judge.text.tags import Citing
from judge.text.words import content_words, sentences, word_texts, words
from streams.errors import DecodeError
from streams.intake.reader import trace_from_headers
from streams.intake.reading.decode import JsonReader
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Span
from streams.intake.reading.registry.decoding import AvroSchema
from streams.intake.sampling import random_value
from streams.kafka.dead_letters import letter_forms
from streams.settings.problems import describe
from streams.store.verdicts import items_of, pieces
from streams.web.port import is_own_host
from tests.judge.tasks import make_task
from tests.robustness.corpus import as_json_text

_MAPPING: Final = {
    "event_id": "id", "question": "q[].text | [0]", "answer": "join(' ', q[*].text)", "labels.a": "m"
}  # fmt: skip
_MAPPED: Final = JsonReader(max_event_bytes=100_000_000, mapping=_MAPPING)
OTLP: Final = OtlpReader(unit="trace", max_event_bytes=100_000_000)
_AVRO: Final = AvroSchema('{"type": "array", "items": ["null", "string"]}')


def traced(**attributes: str) -> None:
    told = [
        {"key": f"gen_ai.{name.replace('_', '.')}", "value": {"stringValue": text}}
        for name, text in {"operation_name": "chat", **attributes}.items()
    ]
    span = {"traceId": "1" * 32, "spanId": "1" * 16, "attributes": told}
    request = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    with contextlib.suppress(DecodeError):
        for spans in OTLP.parts(request).values():
            OTLP.read(spans)


def log_records(text: str) -> None:
    spans = [
        Span("1" * 32, "2" * 16, "", "", f"e{place}", "", {}, {"a": text[place : place + 40]}, is_log=True)
        for place in range(0, len(text), 40)
    ]
    OTLP.read(spans)


def avro(text: str) -> None:
    payload = bytearray()
    for piece in text.split(" "):
        raw = _raw(piece)
        payload += b"\x02\x02" + _zigzag(len(raw)) + raw
    with contextlib.suppress(DecodeError):
        _AVRO.read(bytes(payload) + b"\0")


def _zigzag(number: int) -> bytes:
    out, number = bytearray(), 2 * number
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def mapped(text: str) -> None:
    document = {"id": "e", "q": [{"text": piece} for piece in text.split(" ")], "m": text}
    with contextlib.suppress(DecodeError):
        _MAPPED.decode(json.dumps(document).encode(), [], 0)


def message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


METRICS: Final[Mapping[str, Metric]] = {name: build_metric(name) for name in ("coverage", "relevance")}
_PACK: Final = parse_pack(b'[{role: user, content: "{event}"}]', dialect="yaml", origin="p")
BY_PACK: Final[Mapping[str, Metric]] = {
    name: build_metric(name, pack=_PACK) for name in ("coverage", "relevance")
}
_RE2: Final = CodeMetric("m", "regex", pattern="(a+)+b|x*y")
REDACTOR: Final = Redactor(KINDS)
INGEST: Final = JsonReader(max_event_bytes=100_000_000)
_MASKER: Final = Masker(["secret-1", "another"])
_LIBRARY: Final = metric_names()[len(BUILT_IN) :]
_NAMED_PAGES: Final = Citing((("handbook.pdf", 1), ("page-1", 2)))
_SPAN_CHARS: Final = 60


def _decoded(body: bytes, headers: list[tuple[str, bytes | None]] | None = None) -> None:
    with contextlib.suppress(DecodeError):
        INGEST.decode(body, headers or [], 0)


def _refused(text: str) -> object:
    retry_after_seconds({"retry-after": text, "date": text}, now=datetime(2026, 11, 21, tzinfo=UTC))
    body = {"error": {"message": text, "code": text}}
    return error_for_status(endpoint="a", status=400, body=body, schema_sent=True, secret="secret-1")


def _highlighted(text: str) -> None:
    step = max(len(text) // 200, 1)
    claims = [
        {"claim_span": text[:40], "claim_start": place, "claim_end": place + 2 * step}
        for place in range(0, len(text), step)
    ]
    pieces(text, "answer", items_of({"claims": claims}))


def _set_aside(text: str) -> None:
    raw = _raw(text)
    record: Any = SimpleNamespace(
        topic="t", partition=0, offset=0, timestamp=0.0, key=raw, value=raw, headers=[(text, raw)]
    )
    failed_at = datetime(2026, 11, 21, tzinfo=UTC)
    for form in letter_forms(record, "undecodable", text, event_id=None, failed_at=failed_at):
        form.model_dump_json()


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _event(**fields: bytes) -> bytes:
    named = {"event_id": b'"e"', "question": b'"q"', "answer": b'"a"'} | fields
    return b"{" + b",".join(f'"{name}":'.encode() + value for name, value in named.items()) + b"}"


_FIELDS: Final = {
    "id": ("event_id", b"%s"),
    "question": ("question", b"%s"),
    "label": ("labels", b'{"a":%s}'),
    "a label's name": ("labels", b'{%s:"a"}'),
    "a page's name": ("context", b'{%s:"a"}'),
    "pages of no text": ("context", b"%s"),
    "time": ("occurred_at", b"%s"),
}
"""Places of a text in an event: the field, and its JSON around the text."""


def _decoded_field(place: tuple[str, bytes], text: str) -> None:
    name, form = place
    _decoded(_event(**{name: form % as_json_text(text)}))


def _prepared(metric: Metric, text: str) -> object:
    return metric.prepare(make_task(metric.name, **_texts(text)))


def _texts(text: str) -> dict[str, Any]:
    question, answer = text[: len(text) // 8], f"{text} [Page 1]"
    return {"question": question, "answer": answer, "reference": text, "context": {"Page-1": text}}


def _pieces(text: str, count: int) -> list[str]:
    step = max(len(text) // count, 1)
    return [text[start : start + min(step, _SPAN_CHARS)] for start in range(0, len(text), step)][:count]


def _interpreted(metric: Metric, text: str, reply: str) -> None:
    with contextlib.suppress(EventError):
        metric.interpret(make_task(metric.name, **_texts(text)), reply)


def _relevance(text: str, count: int) -> None:
    marks = {"pages": [1], "page": 1, "supported": True, "relevant": True}
    claims = [{"claim_span": piece, "page_span": piece, **marks} for piece in _pieces(text, count)]
    reply = json.dumps({"claims": claims, "justification": text, "score": 5})
    _interpreted(METRICS["relevance"], text, reply)


def _coverage(text: str, count: int) -> None:
    items = [
        {"item": piece, "reference_span": piece, "answer_span": piece, "matched": True}
        for piece in _pieces(text, count)
    ]
    lists = {"facts": items, "conclusions": items[:2], "terms": items[:2]}
    _interpreted(METRICS["coverage"], text, json.dumps({**lists, "organization": {"similar": True}}))


def _rationale(text: str) -> str:
    lines = ["Fact: 2 of 3", "Conclusion: 1 of 1", f"Term: 1 of 2 {text}", "Organization: matched", text]
    return json.dumps({"score": 4, "rationale": lines})


def _extracted(text: str) -> None:
    with contextlib.suppress(EventError):
        extract_object(text, key="score")


def _mended(text: str) -> object:
    request = ChatRequest(())
    with contextlib.suppress(EventError):
        extract_object(text, key="nothing")
    try:
        extract_object(text, key="no such key")
    except EventError as error:
        return repair_request(request, text, error.detail)
    return None


def _replied(metric: Metric, text: str) -> None:
    for reply in (
        text,
        json.dumps({"score": 1, "justification": text, "statements": [text], "claims": [text]}),
    ):
        _interpreted(metric, "Rain fell.", reply)


def _completion(text: str) -> None:
    said = {"role": "assistant", "content": text, "tool_calls": [{"function": {"arguments": text}}]}
    choice = {"index": 0, "finish_reason": text, "message": said}
    read_completion(
        json.dumps({"model": text, "choices": [choice], "usage": {"prompt_tokens": text}}).encode()
    )


READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "sentences": sentences,
    "index": TextIndex,
    "index, a place": lambda text: list(TextIndex(text).find_all(text[: len(text) // 2])),
    "index, many places": lambda text: list(TextIndex(text).find_all(text[:2])),
    "normalise": normalise,
    "neutralize": neutralize,
    "blank": is_blank,
    "surrogates": without_lone_surrogates,
    "quoted": quoted,
    "words": words,
    "word texts": word_texts,
    "content words": content_words,
    "claims": read_citations,
    "a page's name": page_number,
    "redaction": REDACTOR.redact,
    "reply": _extracted,
    "mended": _mended,
    "describe": describe,
    **{f"decode, {name}": partial(_decoded_field, form) for name, form in _FIELDS.items()},
    "decode, trace": lambda text: _decoded(
        _event(trace_id=as_json_text(text), tracestate=as_json_text(text))
    ),
    "decode, raw": lambda text: _decoded(_raw(text)),
    "decode, headers": lambda text: _decoded(
        _event(),
        [*((name, _raw(text)) for name in ("content-type", "ce_id", "ce_time")), ("ce_specversion", b"1.0")],
    ),
    "trace headers": lambda text: trace_from_headers([("traceparent", _raw(text)), ("tracestate", b"a=b")]),
    **{f"{name}, prepared": partial(_prepared, one) for name, one in METRICS.items()},
    **{f"{name}, prepared by a pack": partial(_prepared, one) for name, one in BY_PACK.items()},
    "coverage, verified": lambda text: _coverage(text, 20),
    "relevance, verified": lambda text: _relevance(text, 20),
    "coverage, by a pack": lambda text: _interpreted(BY_PACK["coverage"], text, _rationale(text)),
    "relevance, by a pack": lambda text: _interpreted(
        BY_PACK["relevance"], text, json.dumps({"score": 4, "justification": text})
    ),
    "relevance, 200 claims": lambda text: _relevance(text, 200),
    "coverage, 200 items": lambda text: _coverage(text, 200),
    # Both lengths grow: of the text and of the list that quotes it.
    "relevance, a claim every 60 characters": lambda text: _relevance(text, max(1, len(text) // 60)),
    "coverage, an item every 60 characters": lambda text: _coverage(text, max(1, len(text) // 60)),
    **{f"{name}, prepared": partial(_prepared, build_metric(name)) for name in _LIBRARY},
    **{f"{name}, any reply": partial(_replied, build_metric(name)) for name in _LIBRARY},
    "decode, mapped": mapped,
    "OTLP, an input": lambda text: traced(input_messages=message("user", text), output_messages="Rain."),
    "OTLP, an output": lambda text: traced(output_messages=message("assistant", text)),
    "OTLP, a bare text": lambda text: traced(input_messages=text, output_messages=text),
    "OTLP, log records": log_records,
    "Avro": avro,
    "tracestate": lambda text: random_value(f"a=b,ot={text}"),
    "estimated tokens": estimated_tokens,
    "valid JSON": lambda text: CodeMetric("m", "json_valid").prepare(make_task("m", answer=text)),
    "a pattern of RE2": lambda text: _RE2.prepare(make_task("m", answer=text)),
    "cited names": lambda text: read_citations(text, _NAMED_PAGES),
    "a completion": _completion,
    "a refusal": _refused,
    "a length of time": lambda text: duration_seconds(text[:64]),
    "masked": _MASKER.mask,
    "printable": printable,
    "highlighted": _highlighted,
    "a dead letter": _set_aside,
    "a host": lambda text: is_own_host([text]),
    "coverage, any reply": lambda text: _interpreted(METRICS["coverage"], "Rain fell.", text),
}
"""The offline judge is not among them: it is a demonstration's endpoint, in a process or thread of its own.
"""
