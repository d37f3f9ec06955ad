"""`outline` reads the same root spans from a keyed record as the parser, without parsing it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import SamplingKey
from streams.intake.pushdown import TracePushDown, TraceSampler
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.requests import wire
from streams.intake.reading.otlp.requests.messages import Traces
from streams.intake.reading.otlp.requests.outline import count_roots, trace_id_of
from streams.intake.sampling import SamplingPolicy

SAMPLES = Path(__file__).parent / "samples"
KEYED = sorted((SAMPLES / "kafka").glob("otlp_spans_keyed-*.pb"))
WHOLE = sorted(one for one in SAMPLES.glob("*.pb") if "-logs" not in one.name)


@pytest.mark.parametrize("path", [*KEYED, *WHOLE], ids=lambda path: path.stem)
def test_it_finds_the_roots_that_a_parser_finds(path: Path) -> None:
    """`outline` equals the parser on records of the Collector and of SDKs."""
    value = path.read_bytes()
    for head in wire.heads(value):
        found = outline(value, head.trace_id.encode())
        assert found == (None if head.tracestate else head.roots)


def outline(value: bytes, key: bytes | None) -> int | None:
    trace_id = trace_id_of(key)
    return None if trace_id is None else count_roots(value, trace_id)


def request(*, parent: bytes, name: bytes = b"call", link: bool = False) -> tuple[bytes, bytes]:
    trace_id, span_id = bytes(range(16)), bytes(range(8))
    traces = Traces()
    spans = traces.resource_spans.add().scope_spans.add().spans
    span = spans.add(trace_id=trace_id, span_id=span_id, parent_span_id=parent, name=name)
    value = traces.SerializeToString()
    if link:  # a link (field 13, not declared) with trace and span ids
        one = b"\x6a\x1c\x0a\x10" + trace_id + b"\x12\x08" + span_id
        del spans[:]
        scope = b"\x12" + bytes([len(inner := span.SerializeToString() + one)]) + inner
        value = b"\x0a" + bytes([len(scope) + 2]) + b"\x12" + bytes([len(scope)]) + scope
        assert wire.heads(value)[0].trace_id == trace_id.hex()
    return value, trace_id.hex().encode()


def test_a_link_to_the_same_trace_is_no_root() -> None:
    """A link has the ids of a span too, so a record with one is left to the parser."""
    value, key = request(parent=bytes(8), link=True)
    assert outline(value, key) is None
    assert wire.heads(value)[0].roots == 0


@pytest.mark.parametrize("key", [None, b"", b"k", b"z" * 32, b"00 " * 10 + b"00", "ä".encode() * 16])
def test_a_key_that_is_no_trace_id_finds_nothing(key: bytes | None) -> None:
    """A key that is no trace id, or the id of another trace, gives None."""
    value, own = request(parent=b"")
    assert outline(value, own) is not None
    assert outline(value, key) is None
    assert outline(value, own[::-1]) is None


@given(st.sampled_from(KEYED), st.integers(1, 200), st.booleans())
def test_a_record_that_is_cut_is_left_to_the_parser(path: Path, cut: int, begins: bool) -> None:
    """A truncated record gives None, because the lengths of its messages do not match."""
    value = path.read_bytes()
    key = wire.heads(value)[0].trace_id.encode()
    assert outline(value[cut:] if begins else value[:-cut], key) is None


@dataclass(frozen=True)
class Keyed:
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes | None], ...] = ()


@given(
    st.sampled_from(KEYED),
    st.binary(min_size=16, max_size=16),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    st.sampled_from(["auto", "record_key"]),
)
def test_the_predicate_decides_and_counts_by_the_key_as_by_the_spans(
    path: Path, trace_id: bytes, rate: float, by: SamplingKey
) -> None:
    """The predicate decides and counts skipped roots by the key as it does by the parsed spans."""
    value = path.read_bytes()
    value = value.replace(bytes.fromhex(wire.heads(value)[0].trace_id), trace_id)
    record = Keyed(trace_id.hex().encode(), value)
    policy = SamplingPolicy(default_rate=rate, key=by)
    (head,) = wire.heads(value)
    kept = TraceSampler(policy).keeps(head, record.key)
    push_down = TracePushDown(policy, OtlpReader(unit="trace", max_event_bytes=1_000_000))
    assert push_down(record) == kept
    assert sum(push_down.skipped.values()) == (0 if kept else head.roots)
