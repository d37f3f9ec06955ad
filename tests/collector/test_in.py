from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted

from judge.chat import ChatRequest
from schemas import QAEvent
from streams.intake.reading.otlp.reader import Unit
from streams.intake.reading.otlp.request import heads
from streams.intake.selector import sampling_policy
from tests.collector.collector import KEYED, binary, collector, to_kafka
from tests.integration.deadlines import until
from tests.integration.stage import Chat, Stage, decided, total, trace_ids
from tests.integration.tuning import GRACE
from tests.judge.scripted import ScriptedChat
from tests.places import ROOT
from tests.streams.intake.reading.otlp.building import log_record, log_request, request, span
from tests.streams.intake.reading.otlp.golden_files import SAMPLES, events_of
from tests.toolbox import run

pytestmark = [pytest.mark.collector, pytest.mark.timeout(400)]

CALL: Final = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "a draft"}
BATCH: Final = {"batch": {"timeout": "200ms"}}


def payloads(ending: str = "pb") -> list[bytes]:
    return [
        path.read_bytes()
        for path in sorted(SAMPLES.glob(f"*.{ending}"))
        if not path.stem.startswith(("th-", "verdict-")) and not path.stem.endswith("-logs")
    ]


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    changes = {"ingest.format": "otlp", "ingest.idle_seconds": 2}
    return Stage(bootstrap_servers, tmp_path, changes=changes, constants={GRACE: 0.5})


async def judged(stage: Stage, expected: Sequence[QAEvent]) -> None:
    await stage.holds(at_least=True, scores=len(expected))
    assert Counter(one.event_id for one in await stage.results()) == Counter(one.event_id for one in expected)
    assert await stage.dead_letters() == []


@pytest.mark.parametrize(
    ("unit", "ending", "encoding", "more"),
    [
        ("span", "pb", "otlp_proto", {}),
        ("trace", "pb", "otlp_proto", KEYED),
        ("span", "json", "otlp_json", {"producer": {"compression": "gzip"}}),
    ],
    ids=["unkeyed", "keyed", "json"],
)
async def test_records_of_a_collector_are_judged_once(
    stage: Stage, unit: Unit, ending: str, encoding: str, more: dict[str, Any]
) -> None:
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
        found = decided(registry)
    assert 0 < len(expected) < len(events_of(sent, unit))
    assert found["sampled", ""] == len(expected)
    if unit == "trace":
        assert found.total() == roots


async def test_batches_within_the_exporters_limit_are_judged(stage: Stage) -> None:
    """It drops a batch above 1,000,000 bytes, without a limit on the size or the bytes of a batch."""
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
    kafka = {"kafka": exporter}
    async with stage.worker(Chat()), collector(stage.directory, kafka, signals=signals) as source:
        await source.post(*logs, signal="logs")
        await source.post(*spans)
        await judged(stage, events_of([*spans, *logs]))


TRACES: Final = 400
UPSTREAM: Final = 0.25
OWN: Final = 0.5


def opinion(request: ChatRequest) -> str:
    score = 4 if any("thinned" in one.content for one in request.messages) else 2
    return f'{{"score": {score}, "justification": "plain"}}'


def asked(trace_id: str, answer: str, signal: str) -> bytes:
    if signal == "logs":
        said = {"gen_ai.input.messages": "How?", "gen_ai.output.messages": answer}
        name = "gen_ai.client.inference.operation.details"
        return log_request(log_record(name, said, trace_id=trace_id))
    about = {"openinference.span.kind": "CHAIN", "input.value": "How?", "output.value": answer}
    return request(span(1, "ask", about, trace_id=trace_id))


def randomness(trace_id: str) -> float:
    return int(trace_id[-14:], 16) / (1 << 56)


@pytest.mark.parametrize(
    ("signal", "mode", "upstream", "thinned"),
    [
        ("traces", "proportional", "equalize", 0.25),  # the lower of the two rates
        ("traces", "equalizing", "equalize", 0.25),
        ("traces", "equalizing", "proportional", 0.125),  # half of what arrived
        ("traces", "proportional", "ignore", 0.5),  # only our rate, although the sampler has dropped some
        ("traces", "hash_seed", "equalize", 0.25),  # the sampler's default mode
        ("logs", "equalizing", "equalize", 0.25),
    ],
)
async def test_weights_include_the_rate_of_a_collectors_sampler(
    bootstrap_servers: str, tmp_path: Path, signal: str, mode: str, upstream: str, thinned: float
) -> None:
    changes: dict[str, Any] = {"ingest.format": "otlp", "ingest.idle_seconds": 1}
    changes["sampling"] = {"default_rate": OWN, "upstream": upstream}
    stage = Stage(bootstrap_servers, tmp_path, changes=changes, constants={GRACE: 0.2})
    exporters = {"kafka": to_kafka(stage, **KEYED)}
    sampler = {"probabilistic_sampler": {"mode": mode, "sampling_percentage": 100 * UPSTREAM}}
    few, whole = (trace_ids(TRACES, seed) for seed in (7, 8))
    async with stage.worker(ScriptedChat(opinion)) as (_, registry):
        async with (
            collector(stage.directory, exporters, processors=sampler, signals=[signal]) as before,
            collector(stage.directory, exporters, signals=[signal]) as past,
        ):
            await before.post(*(asked(one, "thinned", signal) for one in few), signal=signal)
            await past.post(*(asked(one, "whole", signal) for one in whole), signal=signal)
        # A stopped Collector has written everything.
        came = {head.group for one in await stage.read("events") for head in heads(one.value)}
        if mode != "hash_seed":
            assert came & set(few) == {one for one in few if randomness(one) >= 1 - UPSTREAM}
        assert came >= set(whole)
        limit = max(1 - UPSTREAM, 1 - thinned)
        expected = {one for one in few if one in came and (mode == "hash_seed" or randomness(one) >= limit)}
        others = {one for one in whole if randomness(one) >= 1 - OWN}
        await stage.holds(at_least=True, observations=len(expected) + len(others))
        results = await stage.results()
        sums = {name: total(registry, f"judgestream_score_{name}_total") for name in ("weight", "weighted")}
    assert {one.event_id for one in results} == expected | others
    assert {one.sampling.probability for one in results if one.event_id in expected} == {thinned}
    assert {one.sampling.probability for one in results if one.event_id in others} == {OWN}
    weights = len(expected) / thinned, len(others) / OWN
    mean = (4 * weights[0] + 2 * weights[1]) / sum(weights)
    assert sums["weighted"] / sums["weight"] == pytest.approx(mean)


# The documented configurations


def configuration(page: str) -> str:
    _, _, after = (ROOT / "docs" / page).read_text(encoding="utf-8").partition("    # Collector\n")
    lines = []
    for line in after.splitlines():
        if line.startswith("    # ") or (line and not line.startswith("    ")):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines))


@pytest.mark.parametrize("page", ["traces.md", "sinks.md"])
def test_a_collector_takes_the_pages_configuration(page: str, tmp_path: Path) -> None:
    config = tmp_path / "collector.yaml"
    config.write_text(configuration(page), encoding="utf-8")
    run(binary(), "validate", "--config", config)
