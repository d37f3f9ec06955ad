"""`python -m tests.streams.intake.reading.otlp.golden_files` writes the expected events of each sample."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from schemas import QAEvent
from streams.intake.reading.otlp.reader import OtlpReader, Unit
from streams.intake.reading.otlp.span import Span

SAMPLES = Path(__file__).with_name("samples")
GOLDEN = Path(__file__).with_name("golden")


def events_of(records: Iterable[bytes], unit: Unit = "trace") -> list[QAEvent]:
    reader = OtlpReader(unit=unit, max_event_bytes=10_000_000)
    traces: dict[str, list[Span]] = {}
    for record in records:
        for trace_id, spans in reader.parts(record).items():
            traces.setdefault(trace_id, []).extend(spans)
    return [event for trace_id in sorted(traces) for event in reader.read(traces[trace_id]).events]


def lines_of(events: Iterable[QAEvent]) -> str:
    return "".join(event.model_dump_json(exclude_none=True) + "\n" for event in events)


def topic(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((SAMPLES / "kafka").glob(f"{name}-*"))]


def names() -> list[str]:
    return sorted({path.stem for path in SAMPLES.iterdir() if path.suffix in {".pb", ".json"}})


if __name__ == "__main__":
    for name in names():
        record = next(SAMPLES.glob(f"{name}.*")).read_bytes()
        (GOLDEN / f"{name}.jsonl").write_text(lines_of(events_of([record])))
