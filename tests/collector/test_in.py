"""Traces through a Collector's OTLP receiver and Kafka exporter to results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted

from schemas import QAEvent
from streams.intake.reading.otlp.reader import Unit
from streams.intake.reading.otlp.request import heads
from streams.intake.selector import sampling_policy
from tests.collector.collector import KEYED, collector, to_kafka
from tests.integration.deadlines import until
from tests.integration.stage import Stage
from tests.integration.test_traces import CALL, counts, trace_ids
from tests.integration.test_worker import Chat
from tests.integration.tuning import GRACE
from tests.streams.intake.reading.otlp.building import request, span
from tests.streams.intake.reading.otlp.golden_files import SAMPLES, events_of

pytestmark = [pytest.mark.collector, pytest.mark.timeout(400)]

JSON: Final = {"producer": {"compression": "gzip"}}
BATCH: Final = {"batch": {"timeout": "200ms"}}


def payloads(ending: str = "pb") -> list[bytes]:
    """The recorded requests that contain model spans."""
    return [
        path.read_bytes()
        for path in sorted(SAMPLES.glob(f"*.{ending}"))
        if not path.stem.startswith(("th-", "verdict-")) and not path.stem.endswith("-logs")
    ]


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    changes = {
        "ingest.format": "otlp",
        "ingest.idle_seconds": 2,
    }
    return Stage(bootstrap_servers, tmp_path, changes=changes, constants={GRACE: 0.5})


async def judged(stage: Stage, expected: Sequence[QAEvent]) -> None:
    """Wait until exactly these events have results; there are no dead letters."""
    await stage.holds(at_least=True, scores=len(expected))
    assert Counter(one.event_id for one in await stage.results()) == Counter(one.event_id for one in expected)
    assert await stage.dead_letters() == []


@pytest.mark.parametrize(
    ("unit", "ending", "encoding", "more"),
    [
        ("span", "pb", "otlp_proto", {}),
        ("trace", "pb", "otlp_proto", KEYED),
        ("span", "json", "otlp_json", JSON),
    ],
    ids=["unkeyed", "keyed", "json"],
)
async def test_records_of_a_collector_are_judged_once(
    stage: Stage, unit: Unit, ending: str, encoding: str, more: dict[str, Any]
) -> None:
    """Each sampled event has exactly one result and each trace one outcome, unkeyed, keyed in zstd and in
    JSON with gzip.
    """
    stage.changes["ingest.otlp"] = {"unit": unit}
    stage.changes["sampling.default_rate"] = 0.5
    sent = payloads(ending)
    roots = sum(head.begun for one in sent for head in heads(one))
    policy = sampling_policy(stage.settings.sampling)
    expected = [one for one in events_of(sent, unit) if policy.decide_event(one, None).keep]
    exporter = to_kafka(stage, **more)
    exporter["traces"]["encoding"] = encoding
    async with (
        stage.worker(Chat()) as (_, registry),
        collector(stage.directory, {"kafka": exporter}, processors=BATCH) as source,
    ):
        await source.post(*sent)
        await judged(stage, expected)
        found = counts(registry)
    assert 0 < len(expected) < len(events_of(sent, unit))
    assert found["sampled", ""] == len(expected)
    if unit == "trace":
        assert found.total() == roots


async def test_batches_within_the_exporters_limit_are_judged(stage: Stage) -> None:
    """The exporter drops a batch above 1,000,000 bytes; with `send_batch_max_size`, or batches limited by
    bytes, all events are judged.
    """
    stage.changes["ingest.otlp"] = {"unit": "span"}
    call = {**CALL, "llm.input_messages.0.message.content": "How long? " + "x" * 30_000}
    large = [request(span(1, "call", call, trace_id=one)) for one in trace_ids(60, seed=5)]  # 1.8 MB
    exporters = {"kafka": to_kafka(stage)}
    slow = {"batch": {"timeout": "5s", "send_batch_size": 60}}
    async with collector(stage.directory, exporters, processors=slow) as source:
        await source.post(*large)
        await until(lambda: "Dropping data" in source.log, "a dropped batch")
        assert "max_message_bytes" in source.log
    small = {"batch": {"timeout": "5s", "send_batch_size": 10, "send_batch_max_size": 10}}
    by_bytes = {"sizer": "bytes", "min_size": 500_000, "max_size": 900_000}
    later = Stage(stage.bootstrap_servers, stage.directory, changes=stage.changes)
    for one, more, processors in ((stage, {}, small), (later, {"sending_queue": {"batch": by_bytes}}, {})):
        exporters = {"kafka": to_kafka(one, **more)}
        async with one.worker(Chat()), collector(one.directory, exporters, processors=processors) as source:
            await source.post(*large)
            await judged(one, events_of(large, "span"))


@pytest.mark.parametrize("encoding", ["otlp_proto", "otlp_json"])
async def test_contents_in_log_records_are_judged(stage: Stage, encoding: str) -> None:
    names = ("otel-genai-langchain-1.3b0", "otel-genai-openai-1.3b0", "otel-openai-v2-2.4b0")
    spans = [SAMPLES.joinpath(f"{name}.pb").read_bytes() for name in names]
    logs = [SAMPLES.joinpath(f"{name}-logs.pb").read_bytes() for name in names]
    exporter = to_kafka(stage, **KEYED)
    exporter["traces"]["encoding"] = exporter["logs"]["encoding"] = encoding
    signals = ("traces", "logs")
    async with (
        stage.worker(Chat()),
        collector(stage.directory, {"kafka": exporter}, signals=signals) as source,
    ):
        await source.post(*logs, signal="logs")
        await source.post(*spans)
        await judged(stage, events_of([*spans, *logs]))
