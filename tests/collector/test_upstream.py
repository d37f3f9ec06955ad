"""Traces that a Collector's sampler has sampled first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted
from prometheus_client import CollectorRegistry

from judge.chat import ChatReply, ChatRequest
from schemas import Usage
from streams.intake.reading.otlp.request import heads
from tests.collector.collector import KEYED, collector, to_kafka
from tests.integration.stage import Stage
from tests.integration.test_traces import trace_ids
from tests.integration.test_worker import Chat
from tests.integration.tuning import GRACE
from tests.streams.intake.reading.otlp.building import log_record, log_request, request, span

pytestmark = [pytest.mark.collector, pytest.mark.timeout(400)]

TRACES: Final = 400
RANGE: Final = 1 << 56
UPSTREAM: Final = 0.25
OWN: Final = 0.5


class Opinion(Chat):
    """A judge that scores 4 for an answer of the sampled service and 2 for one of the other."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        score = 4 if any("thinned" in one.content for one in request.messages) else 2
        text = f'{{"score": {score}, "justification": "plain"}}'
        return ChatReply(text=text, model="m", usage=Usage(input_tokens=1), seconds=0.01)


def asked(trace_id: str, answer: str, signal: str) -> bytes:
    """A request with a trace of one span or one log record."""
    if signal == "logs":
        said = {"gen_ai.input.messages": "How?", "gen_ai.output.messages": answer}
        name = "gen_ai.client.inference.operation.details"
        return log_request(log_record(name, said, trace_id=trace_id))
    about: dict[str, Any] = {
        "openinference.span.kind": "CHAIN",
        "input.value": "How?",
        "output.value": answer,
    }
    return request(span(1, "ask", about, trace_id=trace_id))


def randomness(trace_id: str) -> float:
    """The randomness R of a trace id, its low 56 bits, as a fraction."""
    return int(trace_id[-14:], 16) / RANGE


def total(registry: CollectorRegistry, name: str) -> float:
    """The total of a counter."""
    wanted = f"judgestream_score_{name}_total"
    return sum(one.value for family in registry.collect() for one in family.samples if one.name == wanted)


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
    changes = {
        "ingest.format": "otlp",
        "ingest.idle_seconds": 1,
        "sampling": {"default_rate": OWN, "upstream": upstream},
    }
    stage = Stage(bootstrap_servers, tmp_path, changes=changes, constants={GRACE: 0.2})
    exporters = {"kafka": to_kafka(stage, **KEYED)}
    sampler = {"probabilistic_sampler": {"mode": mode, "sampling_percentage": 100 * UPSTREAM}}
    few, whole = (trace_ids(TRACES, seed) for seed in (7, 8))
    async with stage.worker(Opinion()) as (_, registry):
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
        sums = {name: total(registry, name) for name in ("weight", "weighted")}
    assert {one.event_id for one in results} == expected | others
    assert {one.sampling.probability for one in results if one.event_id in expected} == {thinned}
    assert {one.sampling.probability for one in results if one.event_id in others} == {OWN}
    weights = len(expected) / thinned, len(others) / OWN
    mean = (4 * weights[0] + 2 * weights[1]) / sum(weights)
    assert sums["weighted"] / sums["weight"] == pytest.approx(mean)
