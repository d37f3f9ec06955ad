"""Traces from a Collector's OTLP receiver, over its Kafka exporter, to results."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted
from structlog.testing import capture_logs

from schemas import QAEvent
from streams.errors import SettingsError
from streams.intake.from_settings import event_policy
from streams.intake.reading.otlp.reader import Unit
from streams.intake.reading.otlp.requests.wire import heads
from tests.collector.collector import KEYED, Collector, collector, to_kafka
from tests.integration.deadlines import until
from tests.integration.stage import Stage
from tests.integration.test_traces import CALL, counts, parts, trace_ids
from tests.integration.test_worker import Chat
from tests.integration.test_worker_process import SOON_MISSED, Endpoint, process
from tests.streams.intake.reading.otlp.building import request, span
from tests.streams.intake.reading.otlp.golden_files import SAMPLES, events_of

pytestmark = [pytest.mark.collector, pytest.mark.timeout(400)]

JSON: Final = {"producer": {"compression": "gzip"}}
BATCH: Final = {"batch": {"timeout": "200ms"}}


def payloads(ending: str = "pb") -> list[bytes]:
    """Give the requests of real instrumentations that hold spans of models."""
    return [
        path.read_bytes()
        for path in sorted(SAMPLES.glob(f"*.{ending}"))
        if not path.stem.startswith(("th-", "verdict-")) and not path.stem.endswith("-logs")
    ]


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    changes = {
        "ingest.format": "otlp",
        "ingest.otlp": {"grace_seconds": 0.5, "idle_seconds": 2, "max_seconds": 60},
    }
    return Stage(bootstrap_servers, tmp_path, changes=changes)


async def judged(stage: Stage, expected: Sequence[QAEvent]) -> None:
    """Wait for as many results, and hold them against the events that were to be judged."""

    async def enough() -> bool:
        return len(await stage.results()) >= len(expected)

    await until(enough, f"{len(expected)} results")
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
async def test_what_passes_a_collector_is_judged_once(
    stage: Stage, unit: Unit, ending: str, encoding: str, more: dict[str, Any]
) -> None:
    """Unkeyed, keyed in zstd, JSON in gzip: each sampled answer has one result, every trace one outcome."""
    stage.changes["ingest.otlp"] |= {"unit": unit}
    stage.changes["sampling.default_rate"] = 0.5
    sent = payloads(ending)
    roots = sum(head.roots for one in sent for head in heads(one))
    policy = event_policy(stage.settings, otlp=True)
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


async def test_a_batch_above_the_limit_is_set_aside_and_the_remedy_helps(stage: Stage) -> None:
    """One record of all requests is a dead letter; with the setting that it names, all are judged."""
    stage.changes["ingest.otlp"] |= {"unit": "span"}
    stage.changes["ingest.max_event_bytes"] = 50_000
    whole = b"".join(payloads())  # requests in Protobuf behind one another are one request
    exporters = {"kafka": to_kafka(stage)}
    async with stage.worker(Chat()):
        async with collector(stage.directory, exporters, processors=BATCH) as source:
            await source.post(whole)

            async def set_aside() -> bool:
                return len(await stage.dead_letters()) == 1

            await until(set_aside, "a dead letter")
            (letter,) = await stage.dead_letters()
            assert letter.reason == "oversized"
            assert "send_batch_max_size" in letter.detail
        small = {"batch": {**BATCH["batch"], "send_batch_size": 4, "send_batch_max_size": 4}}
        async with collector(stage.directory, exporters, processors=small) as source:
            await source.post(whole)
            expected = events_of(payloads(), "span")

            async def enough() -> bool:
                return len(await stage.results()) >= len(expected)

            await until(enough, f"{len(expected)} results")
            found = Counter(one.event_id for one in await stage.results())
            assert found == Counter(one.event_id for one in expected)
            assert len(await stage.dead_letters()) == 1


async def test_what_the_exporter_drops_passes_in_smaller_batches(stage: Stage) -> None:
    """Above 1,000,000 bytes the Collector itself drops a batch; send_batch_max_size keeps below it."""
    stage.changes["ingest.otlp"] |= {"unit": "span"}
    call = {**CALL, "llm.input_messages.0.message.content": "How long? " + "x" * 30_000}
    large = [request(span(1, "call", call, trace_id=one)) for one in trace_ids(60, seed=5)]  # 1.8 MB
    exporters = {"kafka": to_kafka(stage)}
    slow = {"batch": {"timeout": "5s", "send_batch_size": 60}}
    async with collector(stage.directory, exporters, processors=slow) as source:
        await source.post(*large)
        await until(lambda: "Dropping data" in source.log, "the drop")
        assert "max_message_bytes" in source.log
    small = {"batch": {"timeout": "5s", "send_batch_size": 10, "send_batch_max_size": 10}}
    async with stage.worker(Chat()), collector(stage.directory, exporters, processors=small) as source:
        await source.post(*large)
        await judged(stage, events_of(large, "span"))


async def test_an_unkeyed_topic_is_refused_and_the_remedy_helps(stage: Stage) -> None:
    """The worker ends with the exporter's setting; a topic that was written with it is judged."""
    sent = payloads()

    async def refused(source: Collector) -> None:
        async with stage.worker(Chat()):
            with capture_logs() as lines:
                await source.post(*sent)
                await until(lambda: any(one["log_level"] == "critical" for one in lines), "the end")

    async with collector(stage.directory, {"kafka": to_kafka(stage)}, processors=BATCH) as source:
        with pytest.raises(SettingsError, match="partition_traces_by_id: true"):
            await refused(source)
    keyed = Stage(stage.bootstrap_servers, stage.directory, changes=stage.changes)
    exporters = {"kafka": to_kafka(keyed, partition_traces_by_id=True)}
    async with keyed.worker(Chat()), collector(stage.directory, exporters, processors=BATCH) as source:
        await source.post(*sent)
        await judged(keyed, events_of(sent))


async def test_contents_in_log_records_are_judged(stage: Stage) -> None:
    """Spans without content and their log records on one topic, keyed by trace id."""
    names = ("otel-genai-langchain-1.3b0", "otel-genai-openai-1.3b0", "otel-openai-v2-2.4b0")
    spans = [SAMPLES.joinpath(f"{name}.pb").read_bytes() for name in names]
    logs = [SAMPLES.joinpath(f"{name}-logs.pb").read_bytes() for name in names]
    exporters = {"kafka": to_kafka(stage, **KEYED)}
    signals = ("traces", "logs")
    async with stage.worker(Chat()), collector(stage.directory, exporters, signals=signals) as source:
        await source.post(*logs, signal="logs")
        await source.post(*spans)
        await judged(stage, events_of([*spans, *logs]))


async def test_sigkill_and_a_batch_sent_again_lose_nothing(stage: Stage) -> None:
    """SIGKILL of the worker amid traces, a new Collector that sends the same again: one id a trace, the last
    result of the whole trace, nothing lost or invented.
    """
    judge = Endpoint()
    await judge.start()
    stage.base_url = f"http://127.0.0.1:{judge.port}/v1"
    stage.changes |= SOON_MISSED
    ids = trace_ids(60, seed=6)
    exporters = {"kafka": to_kafka(stage, **KEYED)}
    children = [part for one in ids for part in parts(one)[:2]]
    ends = [parts(one)[2] for one in ids]
    try:
        async with collector(stage.directory, exporters, processors=BATCH) as source:
            async with process(stage) as worker:
                await source.post(*children, *ends[:20])

                async def begun() -> bool:
                    return len(await stage.results()) >= 1

                await until(begun, "the first result")
                worker.send_signal(signal.SIGKILL)
                await worker.wait()
            await source.post(*ends[20:40])
        async with (
            collector(stage.directory, exporters, processors=BATCH) as source,
            process(stage),
        ):
            await source.post(*children, *ends)  # all of it again

            async def done() -> bool:
                return {one.event_id for one in await stage.results()} >= set(ids)

            await until(done, "a result for every trace")
    finally:
        await judge.stop()
    last = {one.event_id: one for one in await stage.results()}
    assert set(last) == set(ids)
    assert {one.labels.get("context_from") for one in last.values()} == {"retrieval"}
    assert await stage.dead_letters() == []
