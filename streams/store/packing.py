"""JSON in few bytes. Pure."""

from __future__ import annotations

import zlib
from typing import Any, Final

import orjson

LEVEL: Final = 3
WINDOW_BITS: Final = 13
MEMORY: Final = 5
"""Of zlib: for records of a few thousand bytes a third of the time of the defaults goes, and 6% more bytes
stay."""

_USUAL: Final = (
    b'"answer_span":null,"answer_start":"answer_end":"page_start":"page_end":,"page":null,"page_span":null,"justification":"'
    b'{"item":"","reference_span":"","reference_start":,"reference_end":,"matched":false,"matched":true,"justification":"'
    b'{"claim_span":"","claim_start":,"claim_end":,"pages":[],"supported":false,"relevant":true,"supported":true,"page_span":"'
    b'"evidence":{"claims":[{"evidence":{"facts":[],"conclusions":[],"terms":[],"organization":{"similar":true,'
    b'{"question":"","answer":"","reference":null,"context":null}{"Page-1":"Page-2":"Evidence: [Page 1]'
    b'"Fact: 1 of 1 facts correctly matched.","Conclusion: 0 of 0 conclusions correctly matched.",'
    b'"Terminology: 1 of 1 terms correctly matched.","Organization: matched","Score: 5 \xe2\x89\x88 5.0 = '
    b"5 * "
    b"(facts_ratio 1.0 * 0.7 + terms_ratio 1.0 * 0.21 + organization_ratio 1.0 * "
    b'0.09)"],"corrections":[{"kind":"","detail":"'
    b'{"schema_version":1,"result_id":"","event_id":"","replay_id":null,"trace_id":null,"span_id":null,"labels":{"app":"",'
    b'"model":"","prompt_version":"","tenant":""},"metric":"relevance","metric":"coverage","source":{"topic":"qa.events",'
    b'"partition":0,"offset":0},"evaluator":{"fingerprint":"","prompt":"","schema":"","scoring":"","model":"","parameters":{}},'
    b'"judge":{"endpoint":"","model_asked":"","model_answered":"","fallback":false,"cached":false,"tries":1},"usage":'
    b'{"input_tokens":0,"cached_tokens":0,"output_tokens":0},"cost_usd":0.0,"sampling":{"probability":1.0,"stratum":"default",'
    b'"policy":""},"times":{"occurred_at":"2026-01-01T00:00:00.000000Z","sampled_at":"","judged_at":"","judge_seconds":0.0},'
    b'"status":"scored","verdict":{"score":4,"rationale":["justification":"'
)
"""What most records have in common: zlib refers to it instead of writing it. A change of it is a new
`schema.VERSION`."""


def pack(data: bytes) -> bytes:
    """Compress a record; about a third of the JSON is left."""
    maker = zlib.compressobj(LEVEL, wbits=WINDOW_BITS, memLevel=MEMORY, zdict=_USUAL)
    return maker.compress(data) + maker.flush()


def unpack(data: bytes) -> bytes:
    """Give back what was packed.

    Raises:
        zlib.error: It was not packed by this version.
    """
    reader = zlib.decompressobj(zdict=_USUAL)
    return reader.decompress(data) + reader.flush()


def unpacked(data: bytes) -> dict[str, Any]:
    """Give back the JSON object that was packed."""
    value: dict[str, Any] = orjson.loads(unpack(data))
    return value
