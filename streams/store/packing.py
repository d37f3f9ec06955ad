"""Compression of JSON records. Pure."""

from __future__ import annotations

import threading
from typing import Any, Final

import orjson
from zstandard import DICT_TYPE_RAWCONTENT, ZstdCompressionDict, ZstdCompressor, ZstdDecompressor

LEVEL: Final = 1
"""Higher levels save 2% of the bytes for 10 to 25% more time; zlib needs three times as long."""

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
"""The compression dictionary: text common to most records. A change requires a new `schema.VERSION`."""
_DICTIONARY: Final = ZstdCompressionDict(_USUAL, dict_type=DICT_TYPE_RAWCONTENT)
_DICTIONARY.precompute_compress(level=LEVEL)


class _Tools(threading.local):
    """Compressors per thread: they run without the interpreter's lock and must not be shared."""

    def __init__(self) -> None:
        self.packer = ZstdCompressor(level=LEVEL, dict_data=_DICTIONARY)
        self.unpacker = ZstdDecompressor(dict_data=_DICTIONARY)


_TOOLS: Final = _Tools()


def pack(data: bytes) -> bytes:
    """Compress a record, to about a quarter for a long result, half for a short text."""
    return _TOOLS.packer.compress(data)


def unpack(data: bytes) -> bytes:
    """Decompress a record.

    Raises:
        zstandard.ZstdError: It was not compressed by this version.
    """
    return _TOOLS.unpacker.decompress(data)


def unpacked(data: bytes) -> dict[str, Any]:
    """Decompress a record and parse its JSON object."""
    value: dict[str, Any] = orjson.loads(unpack(data))
    return value
