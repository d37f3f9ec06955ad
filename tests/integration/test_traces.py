"""Traces from a topic to results: joined, held until complete, and each accounted for."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted

from streams.embedded.broker import EmbeddedBroker
from streams.intake.reading.otlp.reader import Unit
from streams.intake.reading.otlp.request import heads
from tests.integration.deadlines import until
from tests.integration.processes import SOON_MISSED, Endpoint, process, running_endpoint
from tests.integration.stage import Chat, Stage, decided, trace_ids
from tests.integration.tuning import CLOSING, GRACE
from tests.streams.intake.reading.otlp.building import request, span
from tests.streams.intake.reading.otlp.golden_files import events_of, topic

ASK = {"openinference.span.kind": "CHAIN", "input.value": "How long?", "output.value": "12 hours"}
CALL = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "a draft"}
FIND = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "a page"}


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    changes = {
        "ingest.format": "otlp",
        "ingest.idle_seconds": 1.5,
        "telemetry.labels": ["trace_parts"],
    }
    return Stage(bootstrap_servers, tmp_path, changes=changes, constants={GRACE: 0.2, CLOSING: 0.1})


def parts(trace_id: str) -> list[bytes]:
    return [
        request(span(3, "find", FIND, parent=1, trace_id=trace_id)),
        request(span(2, "call", CALL, parent=1, trace_id=trace_id)),
        request(span(1, "ask", ASK, trace_id=trace_id)),
    ]


async def produce(stage: Stage, records: list[tuple[str, bytes]], timestamp_ms: int | None = None) -> None:
    keyed = [(key.encode(), value) for key, value in records]
    await stage.produce_keyed(keyed, timestamp_ms=timestamp_ms)


async def test_each_trace_yields_exactly_one_event(stage: Stage) -> None:
    """Late children, repeated batches, lost roots: read = skipped + sampled, by trace."""
    stage.changes["sampling.default_rate"] = 0.5
    ids = trace_ids(24, seed=1)
    full, twice, rootless, silent = ids[:12], ids[12:16], ids[16:20], ids[20:]
    records = [(one, part) for one in full for part in parts(one)]
    records += [(one, part) for one in twice for part in (*parts(one)[::-1], *parts(one))]
    records += [(one, part) for one in rootless for part in parts(one)[:2]]
    records += [(one, request(span(1, "GET /", trace_id=one))) for one in silent]
    kept = {one for one in ids if int(one[-14:], 16) >= 1 << 55}
    async with stage.worker(Chat()) as (_, registry):
        await produce(stage, records)
        # An unsampled trace is counted at its root, so one without a root is not counted.
        expected = Counter(
            {
                ("sampled", ""): len(kept - set(silent)),
                ("skipped", "no_model"): len(kept & set(silent)),
                ("skipped", "not_sampled"): len(set(ids) - kept - set(rootless)) + len(set(twice) - kept),
            }
        )
        await until(lambda: decided(registry) == expected, f"{expected}, got {decided(registry)}")
        await stage.holds(at_least=True, scores=expected["sampled", ""])
        results = await stage.results()
    assert Counter(result.event_id for result in results) == Counter(kept - set(silent))
    assert {result.event_id for result in results if "trace_parts" in result.labels} == kept & set(rootless)
    assert await stage.dead_letters() == []


async def test_the_end_of_a_trace_does_not_replace_the_verdict_on_the_whole(stage: Stage) -> None:
    stage.partitions = 1
    stage.changes["ingest.idle_seconds"] = 30
    whole, other = trace_ids(2, seed=4)
    find, call, root = parts(whole)

    async with stage.worker(Chat()):
        await produce(stage, [(whole, find), (whole, call), (other, parts(other)[0]), (whole, root)])
        await stage.holds(at_least=True, scores=1)
    assert await stage.committed("events") == [2]
    async with stage.worker(Chat()):
        await produce(stage, [(other, part) for part in parts(other)[1:]])
        await stage.holds(at_least=True, scores=3)
    results = await stage.results()
    assert Counter(result.event_id for result in results) == {whole: 2, other: 1}
    assert {result.labels.get("context_from") for result in results} == {"retrieval"}
    assert not any("trace_parts" in result.labels for result in results)


@pytest.mark.slow
async def test_a_killed_worker_loses_no_trace(stage: Stage, endpoint: Endpoint) -> None:
    """Three SIGKILLs amid traces with late children, repeated batches, lost roots and a child after the
    close. Every trace has its results under one id, and the last result is of the whole trace: records read
    again after a crash are joined with those committed before.
    """
    stage.base_url = endpoint.url
    stage.changes |= SOON_MISSED
    stage.changes["ingest.idle_seconds"] = 3
    stage.constants[GRACE] = 0.5
    ids = trace_ids(60, seed=3)
    full, twice, rootless = ids[:40], ids[40:50], ids[50:]
    calls = [(one, parts(one)[1]) for one in ids]
    waves = [
        [(one, parts(one)[0]) for one in ids] + calls[::2],
        calls[1::2] + [(one, parts(one)[2]) for one in full[::2]],
        [(one, part) for one in twice for part in parts(one)],
        [(one, parts(one)[2]) for one in full[1::2]] + [(one, parts(one)[1]) for one in full[:5]],
    ]
    began = time.time_ns() // 1_000_000
    for wave in waves[:-1]:
        async with process(stage) as worker:
            await produce(stage, wave, began)  # as if within the idle time, however long a start takes
            await asyncio.sleep(0.7)  # within the grace period of the wave
            await worker.end(signal.SIGKILL)
    async with process(stage):
        await produce(stage, waves[-1], began)
        await stage.judges(set(ids))
    last = {result.event_id: result for result in await stage.results()}
    assert set(last) == set(ids)
    assert {result.labels.get("context_from") for result in last.values()} == {"retrieval"}
    assert {one for one in ids if "trace_parts" in last[one].labels} == set(rootless)
    assert await stage.dead_letters() == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["worker stopped", "stopped beyond its session", "broker away"])
async def test_no_trace_is_judged_from_a_half_after_a_stop(fault: str, tmp_path: Path) -> None:
    for idle in (12.0, 30.0):
        (folder := tmp_path / str(idle)).mkdir()
        if await _stop_amid_halves(fault, folder, idle):
            return
    pytest.fail("the machine is too slow to stop the worker before its traces close")


async def _stop_amid_halves(fault: str, tmp_path: Path, idle: float) -> bool:
    """Return False if a slow machine may rightly have closed halves before the stop or after it."""
    async with EmbeddedBroker() as broker:
        stage = Stage(
            broker.bootstrap_servers,
            tmp_path,
            partitions=2,
            changes={
                "ingest.format": "otlp",
                "ingest.idle_seconds": idle,
                "telemetry.labels": ["trace_parts"],
                "kafka.session_timeout_seconds": 3 if "session" in fault else 30,
            },
            constants={GRACE: 0.5},
        )
        *ids, first, second = trace_ids(42, seed=3)
        async with running_endpoint() as endpoint:
            stage.base_url = endpoint.url
            async with process(stage) as worker:
                await produce(stage, [(first, part) for part in parts(first)])
                await stage.judges({first})
                began, halves = time.time_ns() // 1_000_000, time.monotonic()
                await produce(stage, [(one, part) for one in ids for part in parts(one)[:2]])
                # Of another partition or read behind the halves: these are then open in the worker.
                await produce(stage, [(second, part) for part in parts(second)])
                await stage.judges({second})
                stopped = time.monotonic()
                if stopped - halves > idle - 1:
                    return False
                rest = [(one, parts(one)[2]) for one in ids]
                if fault == "broker away":
                    await broker.stop()
                else:
                    worker.send_signal(signal.SIGSTOP)
                    await produce(stage, rest, began + 1_000)
                await until(lambda: time.monotonic() - stopped > idle + 1, "a stop beyond the idle time")
                if fault == "broker away":
                    back = time.monotonic()
                    await broker.start()
                    await produce(stage, rest, began + 1_000)
                    if time.monotonic() - back > idle - 1:
                        return False
                else:
                    worker.send_signal(signal.SIGCONT)
                await stage.judges(set(ids))
        results = await stage.results()
        assert {one.event_id for one in results} == {*ids, first, second}
        assert [one.event_id for one in results if "trace_parts" in one.labels] == []
    return True


@pytest.mark.parametrize(("kind", "unit", "codec"), [("_json", "span", "gzip"), ("_keyed", "trace", "zstd")])
async def test_recorded_batches_of_a_collector_are_judged(
    stage: Stage, kind: str, unit: Unit, codec: str | None
) -> None:
    """A too large batch alone is set aside, with the Collector's setting as the remedy."""
    stage.changes["ingest.otlp"] = {"unit": unit}
    stage.changes["ingest.max_event_bytes"] = 100_000
    values = topic(f"otlp_spans{kind}")
    large = request(span(1, "ask", {**ASK, "padding": "x" * 100_000}, trace_id="f" * 32))
    records = [(trace_key(one) if unit == "trace" else None, one) for one in (*values, large)]
    expected = Counter(one.event_id for one in events_of(values, unit))
    async with stage.worker(Chat()):
        await stage.produce_keyed(records, codec=codec)
        await stage.holds(at_least=True, scores=10, dead=1)
        found = Counter(result.event_id for result in await stage.results())
        (letter,) = await stage.dead_letters()
    assert found == expected
    assert found.total() == 10
    assert letter.reason == "oversized"
    assert "send_batch_max_size" in letter.detail


def trace_key(value: bytes) -> bytes:
    (head,) = heads(value)
    return head.group.encode()
