"""Traces through a Collector's OTLP receiver and Kafka exporter to results."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted
from structlog.testing import capture_logs

from schemas import QAEvent
from streams.errors import SettingsError
from streams.intake.reading.otlp.reader import Unit
from streams.intake.reading.otlp.request import heads
from streams.intake.selector import sampling_policy
from tests.collector.collector import KEYED, Collector, collector, to_kafka
from tests.integration.deadlines import until
from tests.integration.processes import SOON_MISSED, Endpoint, process
from tests.integration.stage import Stage
from tests.integration.test_replay import Command
from tests.integration.test_traces import CALL, counts, parts, trace_ids
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


async def test_a_batch_above_the_limit_is_a_dead_letter(stage: Stage) -> None:
    """A record above the limit is a dead letter that names the setting; with that setting all events are
    judged.
    """
    stage.changes["ingest.otlp"] = {"unit": "span"}
    stage.changes["ingest.max_event_bytes"] = 50_000
    whole = b"".join(payloads())  # concatenated Protobuf requests are one request
    exporters = {"kafka": to_kafka(stage)}
    async with stage.worker(Chat()):
        async with collector(stage.directory, exporters, processors=BATCH) as source:
            await source.post(whole)
            await stage.holds(dead=1)
            (letter,) = await stage.dead_letters()
            assert letter.reason == "oversized"
            assert "send_batch_max_size" in letter.detail
        small = {"batch": {**BATCH["batch"], "send_batch_size": 4, "send_batch_max_size": 4}}
        async with collector(stage.directory, exporters, processors=small) as source:
            await source.post(whole)
            expected = events_of(payloads(), "span")
            await stage.holds(at_least=True, scores=len(expected))
            found = Counter(one.event_id for one in await stage.results())
            assert found == Counter(one.event_id for one in expected)
            assert len(await stage.dead_letters()) == 1


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


async def test_an_unkeyed_topic_is_refused(stage: Stage) -> None:
    """The worker ends with an error that names the exporter's setting; a topic written with that setting is
    judged.
    """
    sent = payloads()

    async def refused(source: Collector) -> None:
        async with stage.worker(Chat()):
            with capture_logs() as lines:
                await source.post(*sent)
                await until(lambda: any(one["log_level"] == "critical" for one in lines), "the refusal")

    async with collector(stage.directory, {"kafka": to_kafka(stage)}, processors=BATCH) as source:
        with pytest.raises(SettingsError, match="partition_traces_by_id: true"):
            await refused(source)
    keyed = Stage(stage.bootstrap_servers, stage.directory, changes=stage.changes)
    exporters = {"kafka": to_kafka(keyed, partition_traces_by_id=True)}
    async with keyed.worker(Chat()), collector(stage.directory, exporters, processors=BATCH) as source:
        await source.post(*sent)
        await judged(keyed, events_of(sent))


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


async def test_a_replay_judges_records_of_a_collector_again(stage: Stage, judge: Endpoint) -> None:
    stage.base_url = f"http://127.0.0.1:{judge.port}/v1"
    since, sent = datetime.now(UTC).isoformat(), payloads()
    exporters = {"kafka": to_kafka(stage, **KEYED)}
    async with stage.worker(None), collector(stage.directory, exporters, processors=BATCH) as source:
        await source.post(*sent)
        await judged(stage, events_of(sent))
    report = await (await Command.start(stage, "--from", since)).report()
    again = [one for one in await stage.results() if one.replay_id == report["replay_id"]]
    assert Counter(one.event_id for one in again) == Counter(one.event_id for one in events_of(sent))
    assert report["results"] == {"tone": {"scored": len(again)}}


async def test_sigkill_and_resent_batches_lose_no_result(stage: Stage, judge: Endpoint) -> None:
    """Two SIGKILLs of the worker and a resent batch lose no result and invent none.

    Children arrive before or after their root, without it, or after the trace's end; the last result of each
    trace is that of the whole trace.
    """
    stage.base_url = f"http://127.0.0.1:{judge.port}/v1"
    stage.changes |= SOON_MISSED | {"sampling.default_rate": 0.5}
    stage.changes["ingest.idle_seconds"] = 4
    stage.constants[GRACE] = 2
    ids = trace_ids(200, seed=6)
    children_first, roots_first, rootless = ids[:120], ids[120:170], ids[170:]
    kept = {one for one in ids if int(one[-14:], 16) >= 1 << 55}
    finds, calls, roots = ({one: parts(one)[number] for one in ids} for number in range(3))
    waves = [
        [
            *finds.values(),
            *(calls[one] for one in children_first),
            *(roots[one] for one in children_first[:60]),
        ],
        [*(roots[one] for one in (*children_first[60:], *roots_first)), *(calls[one] for one in roots_first)],
    ]
    exporters = {"kafka": to_kafka(stage, **KEYED)}

    async def written(wave: list[bytes]) -> None:
        """Send through a Collector that then ends, so that all is written."""
        async with collector(stage.directory, exporters, processors=BATCH) as source:
            await source.post(*wave)

    for number, wave in enumerate(waves):
        async with process(stage) as worker:
            await written(wave)
            if number:  # during the rest of the first wave, which is read again
                await stage.judges(kept & set(children_first[:20]))
            worker.send_signal(signal.SIGKILL)
            await worker.wait()
    async with process(stage):
        await written([*waves[1], *(calls[one] for one in rootless)])  # a resent batch, then the rest
        await stage.judges(kept)
        await written([calls[one] for one in children_first[:10]])  # after the traces' end
        after = next(one for one in trace_ids(9, seed=7) if int(one[-14:], 16) >= 1 << 55)
        await written(parts(after))
        await stage.judges({after})
    last = {one.event_id: one for one in await stage.results()}
    assert set(last) == {*kept, after}
    assert {one.labels.get("context_from") for one in last.values()} == {"retrieval"}
    assert {one.event_id for one in last.values() if "trace_parts" in one.labels} == kept & set(rootless)
    assert await stage.dead_letters() == []
