from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted

from schemas import Failed, Scored, Unscored
from streams.intake.reading.otlp.span import Attributes
from tests.collector.collector import KEYED, collector, to_kafka
from tests.integration.deadlines import until
from tests.integration.stage import Chat, Stage, decided
from tests.integration.tuning import GRACE
from tests.streams.intake.reading.otlp.golden_files import SAMPLES, events_of
from tests.streams.results import failed, scored, unscored

pytestmark = [pytest.mark.collector, pytest.mark.timeout(400)]


TRACED = SAMPLES / "openinference-openai-0.1.66.pb"


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    return Stage(bootstrap_servers, tmp_path, changes={"ingest.format": "otlp"}, constants={GRACE: 0.5})


def lines(file: Path) -> Iterator[Any]:
    if file.exists():
        yield from (orjson.loads(line) for line in file.read_bytes().split(b"\n")[:-1])


def attributes(pairs: list[dict[str, Any]]) -> Attributes:
    return {one["key"]: next(iter(one["value"].values())) for one in pairs}


def records(file: Path) -> list[dict[str, Any]]:
    return [
        {**one, "resource": attributes(of_resource["resource"]["attributes"]), "scope": of_scope["scope"]}
        for request in lines(file)
        for of_resource in request["resourceLogs"]
        for of_scope in of_resource["scopeLogs"]
        for one in of_scope["logRecords"]
    ]


def expected(result: Scored | Unscored | Failed) -> dict[str, Any]:
    found: dict[str, Any] = {
        "gen_ai.evaluation.name": result.metric,
        "judgestream.result_id": result.result_id,
        "judgestream.event_id": result.event_id,
        "judgestream.sampling.probability": 1,
        "judgestream.evaluator.fingerprint": result.evaluator.fingerprint,
        "judgestream.evaluator.model": result.evaluator.model,
    }
    found |= {f"judgestream.label.{name}": value for name, value in result.labels.items()}
    if isinstance(result, Failed):
        said = "the filter said no"
        return found | {"error.type": "content_refused", "gen_ai.evaluation.explanation": said}
    if isinstance(result, Unscored):
        return found | {"gen_ai.evaluation.score.label": "unscored: no_claims"}
    found["gen_ai.evaluation.score.value"] = result.score
    if isinstance(result.value, str):
        found["gen_ai.evaluation.score.label"] = result.value
    return {**found, "gen_ai.evaluation.explanation": result.verdict["justification"]}


async def shown(file: Path, results: list[Scored | Unscored | Failed]) -> None:
    await until(lambda: len(records(file)) >= len(results), f"{len(results)} log records in {file.name}")
    found = {attributes(one["attributes"])["judgestream.result_id"]: one for one in records(file)}
    assert len(records(file)) == len(results)
    for result in results:
        record = found[result.result_id]
        assert record["eventName"] == "gen_ai.evaluation.result"
        place = record.get("traceId") or None, record.get("spanId") or None
        assert place == (result.trace_id, result.span_id)
        assert attributes(record["attributes"]) == expected(result)
        assert int(record["timeUnixNano"]) // 1000 == round(result.times.judged_at.timestamp() * 1e6)
        assert record["resource"]["service.name"] == record["scope"]["name"] == "judgestream"
        assert record["severityNumber"] == (13 if isinstance(result, Failed) else 9)


async def test_each_result_is_exported_once_with_its_span(stage: Stage) -> None:
    """From the topic and over OTLP/HTTP."""
    traced = TRACED.read_bytes()
    exporters = {"kafka": to_kafka(stage, **KEYED)}
    async with stage.worker(Chat()), collector(stage.directory, exporters) as source:
        await source.post(traced)
        await stage.holds(at_least=True, scores=3)
    labelled = scored(4, 1).model_copy(update={"kind": "label", "value": "polite"})
    others = [scored(1, 3, labels={"app": "shop"}), failed(2), unscored(3), labelled]
    await stage.produce([one.model_dump_json().encode() for one in others], topic="scores")
    results = await stage.results()
    places = {(one.event_id, one.trace_id, one.span_id) for one in results if one.trace_id}
    assert places == {(one.event_id, one.trace_id, one.span_id) for one in events_of([traced])}

    by_topic, by_http = stage.directory / "by-topic.json", stage.directory / "by-http.json"
    receiver = {
        "brokers": [stage.bootstrap_servers],
        "initial_offset": "earliest",
        "group_id": f"{stage.name}-collector",
        "logs": {"topics": [stage.topic("evaluations")]},
    }
    to_files = [{"file": {"path": str(file)}} for file in (by_topic, by_http)]
    forwarding = collector(stage.directory, to_files[0], receivers={"kafka": receiver}, signals=["logs"])
    async with collector(stage.directory, to_files[1], signals=["logs"]) as direct:
        stage.changes["sinks"] = {
            "topic": {"kind": "otlp_topic"},
            "http": {"kind": "otlp_http", "url": f"{direct.url}/v1/logs"},
        }
        async with stage.worker(None, agents=("sink",)), forwarding:
            await shown(by_http, results)
            await shown(by_topic, results)
    assert await stage.dead_letters() == []


async def test_our_own_spans_are_exported_and_not_judged(stage: Stage) -> None:
    """The span of an evaluation links to the judged span."""
    file = stage.directory / "spans.json"
    exporters = {"kafka": to_kafka(stage, **KEYED), "file": {"path": str(file)}}

    def judgings() -> list[dict[str, Any]]:
        return [
            one
            for request in lines(file)
            for of_resource in request.get("resourceSpans", ())
            if attributes(of_resource["resource"]["attributes"])["service.name"] == "judgestream"
            for of_scope in of_resource["scopeSpans"]
            for one in of_scope["spans"]
        ]

    async with collector(stage.directory, exporters, signals=["traces", "logs"]) as source:
        async with stage.worker(Chat()) as (_, registry):
            await source.post(TRACED.read_bytes())
            await until(lambda: decided(registry)["sampled", ""] == 3, "three events")
            await stage.holds(at_least=True, observations=3)
            read = len(await stage.read("events"))
        stage.changes["sinks"] = {
            "judge": {"kind": "otlp_spans", "url": f"{source.url}/v1/traces"},
            "verdicts": {"kind": "otlp_http", "url": f"{source.url}/v1/logs"},
        }
        async with stage.worker(None, agents=("sink",)):
            await until(lambda: len(judgings()) >= 6, "six spans")
            # One record per trace: three with verdicts, three with our spans.
            await stage.holds(at_least=True, events=read + 6)
        async with stage.worker(Chat()) as (_, registry):
            await stage.commits("events", read + 6)
            assert decided(registry) == {("skipped", "ours"): 3}
    results = {one.result_id: one for one in await stage.results()}
    assert len(results) == 3
    for one in judgings():
        result = results[one["traceId"]]
        if one["name"] == "evaluate tone":
            (link,) = one["links"]
            assert (link["traceId"], link["spanId"]) == (result.trace_id, result.span_id)
        else:
            assert (one["name"], one["kind"]) == ("chat m", 3)
            assert attributes(one["attributes"])["gen_ai.response.model"] == "m"
