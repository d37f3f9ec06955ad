"""CPU time of reading traces, per arriving span, at 5% sampled, compared with opentelemetry-proto.

The records are keyed ones that a Collector wrote (`samples/kafka`): ten traces of 2 to 10 spans in 14 records
of 0.2 to 17 KB, each trace repeated with new trace ids. Measured is the work on the event loop: decoding (the
predicate on every record; reading and joining of sampled traces), and decoding plus mapping of those traces
to events. CPU time of one core; the best of several rounds.
"""

from __future__ import annotations

import gc
import random
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from benchmarks.contestants.otlp_full import ROUNDS
from benchmarks.peers import PeersUnavailableError, peers_python
from benchmarks.report import Line
from streams.intake.joining.join import Join, JoinBounds
from streams.intake.reader import GroupSampler
from streams.intake.reading.otlp import request as wire
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.sampling import SamplingPolicy

RATE: Final = 0.05
REPEATS: Final = 400
"""Of each trace; a multiple of 20, for 5%."""
AIM_US: Final = 6.0
SAMPLES: Final = Path(__file__).resolve().parents[1] / "tests/streams/intake/reading/otlp/samples/kafka"
_BOUNDS: Final = JoinBounds(grace=0, idle=60, longest=300, groups=100_000, size=1 << 30)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes | None], ...] = ()


def run() -> Iterator[dict[str, object]]:
    """Measure."""
    records, spans = _records()
    traces = len({record.key for record in records})
    gc.freeze()  # as in the worker: exclude permanent objects from garbage collection
    everything = _peer(records)
    decoded = min(_timed(lambda: _sampled(records, RATE, mapped=False)) for _ in range(ROUNDS))
    mapped = min(_timed(lambda: _sampled(records, RATE)) for _ in range(ROUNDS))
    whole = min(_timed(lambda: _sampled(records, 1.0)) for _ in range(ROUNDS))
    heads = min(_timed(lambda: [wire.heads(record.value) for record in records]) for _ in range(ROUNDS))
    baseline = None if everything is None else round(everything / spans * 1e6, 2)
    cost = round(decoded / spans * 1e6, 2)
    yield Line(
        "traces at 5%, Protobuf, keyed: decoded",
        cost,
        "us a span",
        baseline,
        f"<= {AIM_US:g} us a span",
        cost <= AIM_US,
        (f"{len(records)} records, {spans} spans; baseline: opentelemetry-proto parses everything"),
    ).as_json()
    yield Line(
        "traces at 5%: decoded and mapped to events", round(mapped / spans * 1e6, 2), "us a span", baseline
    ).as_json()
    yield Line(
        "traces: ids and tracestate alone", round(heads / spans * 1e6, 2), "us a span", baseline
    ).as_json()
    yield Line(
        "traces at 100%: a trace read, joined, mapped", round(whole / traces * 1e6, 1), "us a trace"
    ).as_json()


def _records() -> tuple[list[Record], int]:
    source = random.Random(1)  # noqa: S311 - made-up trace ids
    traces: dict[str, list[bytes]] = {}
    counts: dict[bytes, int] = {}
    for path in sorted(SAMPLES.glob("otlp_spans_keyed-*.pb")):
        value = path.read_bytes()
        counts[value] = len(wire.spans(value))
        traces.setdefault(wire.heads(value)[0].group, []).append(value)
    records, spans = [], 0
    for number, (trace_id, values) in product(range(REPEATS), traces.items()):
        # Spread evenly, so that the share of each trace that is in the sample is exact.
        place = number * 149 % REPEATS
        randomness = ((place << 56) + source.getrandbits(56)) // REPEATS
        made_up = source.getrandbits(72) << 56 | randomness
        spans += sum(counts[value] for value in values)
        for value in values:
            fresh = value.replace(bytes.fromhex(trace_id), made_up.to_bytes(16, "big"))
            records.append(Record(f"{made_up:032x}".encode(), fresh))
    return records, spans


def _sampled(records: list[Any], rate: float, *, mapped: bool = True) -> int:
    policy = SamplingPolicy(default_rate=rate, upstream="equalize")
    reader = OtlpReader(unit="trace", max_event_bytes=10_000_000)
    sampler, join = GroupSampler(policy, reader), Join(_BOUNDS, is_complete=reader.is_complete)
    events = 0
    for record in records:
        if rate < 1 and not sampler(record):
            continue
        for trace_id, spans in sampler.read(record)[0].items():
            join.add(join.clock(("", 0)), trace_id, spans, size=len(record.value))
        for trace in join.due():
            events += len(reader.read(trace.parts).events) if mapped else 1
    return events


def _timed(work: Callable[[], Any]) -> float:
    started = time.process_time()  # the machine may be busy with other things
    work()
    return time.process_time() - started


def _peer(records: list[Record]) -> float | None:
    with tempfile.NamedTemporaryFile() as file:
        for record in records:
            file.write(struct.pack(">I", len(record.value)) + record.value)
        file.flush()
        try:
            script = Path(__file__).parent / "contestants" / "otlp_full.py"
            done = subprocess.run(
                [peers_python(), script, file.name], capture_output=True, text=True, check=True, timeout=300
            )
        except (PeersUnavailableError, subprocess.SubprocessError):
            return None
    return min(float(line) for line in done.stdout.split())
