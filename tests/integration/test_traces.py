"""Traces from a topic to results: joined, held, accounted for one by one."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted
from prometheus_client import CollectorRegistry

from streams.errors import SettingsError
from tests.integration.deadlines import until
from tests.integration.stage import Stage
from tests.integration.test_worker import Chat
from tests.streams.intake.reading.otlp.building import request, span

ASK = {"openinference.span.kind": "CHAIN", "input.value": "How long?", "output.value": "12 hours"}
CALL = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "a draft"}
FIND = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "a page"}


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    changes = {
        "ingest.format": "otlp",
        "ingest.otlp": {"grace_seconds": 0.2, "idle_seconds": 1.5, "max_seconds": 5},
        "telemetry.labels": ["trace_parts"],
    }
    return Stage(bootstrap_servers, tmp_path, changes=changes)


def parts(trace_id: str) -> list[bytes]:
    """A trace as it arrives: children before their root, a record each."""
    return [
        request(span(3, "find", FIND, parent=1, trace_id=trace_id)),
        request(span(2, "call", CALL, parent=1, trace_id=trace_id)),
        request(span(1, "ask", ASK, trace_id=trace_id)),
    ]


def trace_ids(number: int, seed: int) -> list[str]:
    source = random.Random(seed)
    return [f"{source.getrandbits(128):032x}" for _ in range(number)]


async def produce(stage: Stage, records: list[tuple[str, bytes]]) -> None:
    """Put records on the partition of their key, the trace id."""
    await stage.produce_keyed([(key.encode(), value) for key, value in records])


def counts(registry: CollectorRegistry) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for family in registry.collect():
        if family.name == "judgestream_events":
            for sample in family.samples:
                found[sample.labels["outcome"], sample.labels["reason"]] += int(sample.value)
    return found


async def test_every_trace_ends_as_one_thing(stage: Stage) -> None:
    """Roots first, children late, batches twice, roots lost, no model at all: read = skipped + sampled, by trace."""
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
        # A trace out of the sample counts where its root is: those without one are not seen.
        expected = Counter(
            {
                ("sampled", ""): len(kept - set(silent)),
                ("skipped", "no_model"): len(kept & set(silent)),
                ("skipped", "not_sampled"): len(set(ids) - kept - set(rootless)) + len(set(twice) - kept),
            }
        )
        await until(lambda: counts(registry) == expected, f"{expected}, got {counts(registry)}")

        async def judged() -> bool:
            return len(await stage.results()) >= expected["sampled", ""]

        await until(judged, "all sampled traces judged")
        results = await stage.results()
    assert Counter(result.event_id for result in results) == Counter(kept - set(silent))
    assert {result.event_id for result in results if "trace_parts" in result.labels} == kept & set(rootless)
    assert await stage.dead_letters() == []


async def test_a_worker_that_stops_amid_traces_loses_none_and_invents_none(stage: Stage) -> None:
    """What it held is read again by the next; a root whose children were committed before meets them again."""
    ids = trace_ids(8, seed=2)
    async with stage.worker(Chat()) as (_, registry):
        await produce(stage, [(one, part) for one in ids for part in parts(one)[:2]])
        await until(lambda: registry.get_sample_value("judgestream_traces_open") == 8, "open traces")
    assert await stage.results() == []
    async with stage.worker(Chat()):
        await produce(stage, [(one, parts(one)[2]) for one in ids])

        async def judged() -> bool:
            return len(await stage.results()) >= 8

        await until(judged, "all traces judged")
        results = await stage.results()
    assert Counter(result.event_id for result in results) == Counter(ids)
    assert {result.labels.get("context_from") for result in results} == {"retrieval"}
    assert not any("trace_parts" in result.labels for result in results)


async def test_an_unkeyed_topic_is_refused_with_the_remedy(stage: Stage) -> None:
    """The worker ends; one setting of the Collector, or unit span, mends it."""

    async def run() -> None:
        async with stage.worker(Chat()) as (_, registry):
            await stage.produce([parts("f" * 32)[2]], key=None)
            await until(lambda: bool(registry.get_sample_value("x")), "the end", deadline_seconds=10)

    with pytest.raises(SettingsError, match="partition_traces_by_id: true"):
        await run()
