"""What each receiver gets: OpenTelemetry's events and spans, scores, annotations and signed requests."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData as OwnTraces

from schemas import JudgeCall, Times, Usage
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.request import spans
from streams.sinks import delivery
from streams.sinks.base import AnyResult, DeliveryRefusedError, Evaluation, Sink
from streams.sinks.delivery import Delivery, SinkAgent
from streams.sinks.otlp import log_request, trace_request
from tests.streams.records import Outbox
from tests.streams.results import at, failed, scored, unscored
from tests.streams.sinks.receiving import Server, way

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def traced(number: int, score: int = 4) -> Evaluation:
    return Evaluation.of(scored(number, score).model_copy(update={"trace_id": TRACE, "span_id": SPAN}))


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "FIRST_WAIT_SECONDS", 0.01)


async def test_langfuse_gets_scores_that_update_by_id() -> None:
    """Results without a score or a trace are skipped."""
    server = Server([(202, {})])
    async with way(server, "langfuse", public_key="pk") as one:
        results = (traced(1), Evaluation.of(unscored(2)), Evaluation.of(scored(3, 1)))
        await asyncio.gather(*map(one.delivery.put, results))
    ((method, path, headers, _),) = server.asked
    assert (method, path) == ("POST", "/api/public/scores")
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"pk:key").decode()
    ((score,),) = server.bodies()
    assert score["id"] == traced(1).result.result_id
    wanted = {"traceId": TRACE, "observationId": SPAN, "name": "relevance", "value": 4.0}
    assert score.items() >= (wanted | {"dataType": "NUMERIC", "comment": "Because."}).items()
    assert one.outcomes == {"delivered": 1, "skipped": 2, "refused": 0}


async def test_of_a_207_only_what_it_names_is_refused() -> None:
    first, second = traced(1), traced(2)
    server = Server([(207, {"errors": [{"index": 1, "message": "no such config", "status": 404}]})])
    async with way(server, "langfuse", public_key="pk") as one:
        taken, refused = await asyncio.gather(
            one.delivery.put(first), one.delivery.put(second), return_exceptions=True
        )
    assert taken is None
    assert isinstance(refused, DeliveryRefusedError)
    assert str(refused) == "status 404"  # without the message, which may quote the verdict
    assert len(server.asked) == 1


async def test_phoenix_gets_annotations_of_spans() -> None:
    server = Server()
    async with way(server, "phoenix") as one:
        await one.delivery.put(traced(1))
        await one.delivery.put(Evaluation.of(scored(2, 3)))  # without a span
    ((_, path, headers, _),) = server.asked
    assert path == "/v1/span_annotations?sync=false"
    assert headers["Authorization"] == "Bearer key"
    (annotation,) = server.bodies()[0]["data"]
    about = {"span_id": SPAN, "name": "relevance", "annotator_kind": "LLM", "identifier": "judgestream"}
    assert annotation.items() >= about.items()
    assert annotation["result"] == {"score": 4.0, "label": "scored", "explanation": "Because."}


async def test_mlflow_gets_an_assessment_once() -> None:
    assessments = [{"metadata": {"judgestream.result_id": traced(2).result.result_id}}]
    known = {"trace": {"trace_info": {"assessments": assessments}}}
    server = Server([(200, {}), (200, {}), (200, known)])
    async with way(server, "mlflow") as one:
        await one.delivery.put(traced(1))
        await one.delivery.put(traced(2))
    trace = f"/api/3.0/mlflow/traces/tr-{TRACE}"
    assert [(method, path) for method, path, _, _ in server.asked] == [
        ("GET", trace),
        ("POST", f"{trace}/assessments"),
        ("GET", trace),
    ]
    assessment = server.bodies()[0]["assessment"]
    wanted = {"assessment_name": "relevance", "feedback": {"value": 4.0}, "rationale": "Because."}
    assert assessment.items() >= wanted.items()


async def test_a_webhook_is_signed_over_time_and_body() -> None:
    server = Server()
    async with way(server, "webhook") as one:
        await asyncio.gather(one.delivery.put(traced(1)), one.delivery.put(Evaluation.of(failed(2))))
    ((_, _, headers, body),) = server.asked
    signature = hmac.new(b"key", b"1000." + body, hashlib.sha256).hexdigest()
    assert headers["X-Judgestream-Timestamp"] == "1000"
    assert headers["X-Judgestream-Signature"] == f"sha256={signature}"
    assert [result["status"] for result in json.loads(body)["results"]] == ["scored", "failed"]


async def test_a_collector_gets_otlp_by_http() -> None:
    server = Server()
    async with way(server, "otlp_http") as one:
        await asyncio.gather(*(one.delivery.put(traced(number)) for number in range(3)))
    ((_, _, headers, body),) = server.asked
    assert headers["Content-Type"] == "application/x-protobuf"
    assert len(spans(body)) == 3


@pytest.mark.parametrize("status", [500, 503, 429, 401])
async def test_what_may_pass_is_tried_until_it_does(status: int) -> None:
    server = Server([(status, {}), (status, {}), (200, {})])
    async with way(server, "webhook") as one:
        await one.delivery.put(traced(1))
        assert one.delivery.trouble is None
    assert len(server.asked) == 3
    assert one.outcomes == {"delivered": 1, "refused": 0}


async def test_what_will_not_pass_is_refused() -> None:
    """A permanent error is refused with its status only, because the message may quote the verdict."""
    async with way(Server([(422, {"detail": "bad span"})]), "phoenix") as one:
        with pytest.raises(DeliveryRefusedError, match=r"^HTTP 422$"):
            await one.delivery.put(traced(1))
    assert one.outcomes == {"refused": 1, "delivered": 0}


@dataclass
class FakeSink:
    name: str
    take: Callable[[Evaluation], Awaitable[None]]

    async def put(self, one: Evaluation) -> None:
        await self.take(one)


async def test_a_refused_verdict_is_set_aside_and_the_others_are_taken() -> None:
    """A record that is not a result becomes a dead letter too."""
    taken: list[str] = []

    async def take(one: Evaluation) -> None:
        taken.append(one.result.event_id)

    async def refuse(_: Evaluation) -> None:
        raise DeliveryRefusedError("HTTP 404: no such trace")

    outbox: Any = Outbox()
    sinks: list[Any] = [FakeSink("a", take), FakeSink("b", refuse)]
    agent = SinkAgent(sinks, outbox)
    for value in (scored(1, 4).model_dump_json().encode(), b"nonsense"):
        record: Any = SimpleNamespace(value=value)
        await agent.handle(record)
    assert taken == ["e1"]
    assert [reason for reason, _ in outbox.letters] == ["unroutable", "undecodable"]
    assert (
        "sinks.b: the receiver refused the verdict of relevance, HTTP 404: no such trace"
        in outbox.letters[0][1]
    )


async def test_a_sink_that_fails_in_another_way_leaves_nobody_waiting() -> None:
    class Broken(Sink[Evaluation]):
        linger_seconds = 0

        async def send(self, batch: Sequence[Evaluation]) -> Mapping[str, str]:
            raise KeyError(len(batch))

        async def close(self) -> None:
            raise OSError("it cannot be closed either")

    opening: Any = None
    broken = Delivery("broken", Broken(None, opening), on_outcome=lambda *_: None)
    with pytest.raises(KeyError):
        await broken.put(traced(1))
    await broken.close()


def test_a_score_is_a_value_with_its_explanation_and_weight() -> None:
    result = scored(1, 4, probability=0.25, labels={"app": "shop"}, seconds=0.453029).model_copy(
        update={"trace_id": TRACE, "span_id": SPAN}
    )
    (record,) = spans(log_request([Evaluation.of(result)], version="1.2.3"))
    assert (record.name, record.trace_id, record.span_id) == ("gen_ai.evaluation.result", TRACE, SPAN)
    assert record.is_log
    assert record.resource == {"service.name": "judgestream", "service.version": "1.2.3"}
    assert record.start == 1_741_960_800_453_029_000  # START and 0.453029 s
    assert record.attributes == {
        "body": "evaluation: relevance=4",
        "gen_ai.evaluation.name": "relevance",
        "gen_ai.evaluation.score.value": 4.0,
        "gen_ai.evaluation.explanation": "Because.",
        "judgestream.result_id": result.result_id,
        "judgestream.event_id": "e1",
        "judgestream.sampling.probability": 0.25,
        "judgestream.evaluator.fingerprint": "f1",
        "judgestream.evaluator.model": "judge-1",
        "judgestream.label.app": "shop",
    }


VALUE, LABEL, ERROR = "gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label", "error.type"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (scored(1, 4), {VALUE: 4}),
        (scored(1, 4).model_copy(update={"kind": "label", "value": "polite"}), {VALUE: 4, LABEL: "polite"}),
        (scored(1, 4).model_copy(update={"kind": "boolean", "value": True}), {VALUE: 4, LABEL: "true"}),
        (unscored(1), {LABEL: "unscored: no_claims"}),
        (failed(1), {ERROR: "content_refused"}),
    ],
)
def test_what_became_of_a_verdict(result: AnyResult, expected: dict[str, Any]) -> None:
    (record,) = spans(log_request([Evaluation.of(result)], version="1.2.3"))
    found = dict(record.attributes)
    assert {name: found[name] for name in (VALUE, LABEL, ERROR) if name in found} == expected


@pytest.mark.parametrize("trace_id", [None, "short"])
def test_an_answer_without_a_trace_gives_an_event_without_one(trace_id: str | None) -> None:
    """A trace id of another form is left out, because a Collector would refuse the request."""
    result = scored(1, 4).model_copy(update={"trace_id": trace_id})
    (record,) = spans(log_request([Evaluation.of(result)], version="1"))
    assert record.trace_id == ""


def asked(**call: Any) -> AnyResult:
    """Return the result of a call that took 2 of the 5 seconds between sampling and result."""
    judge = JudgeCall(endpoint="east", model_asked="gpt-4.1", model_answered="gpt-4.1-2025", tries=2, **call)
    return scored(1, 4).model_copy(
        update={
            "trace_id": TRACE,
            "span_id": SPAN,
            "judge": judge,
            "usage": Usage(input_tokens=700, cached_tokens=600, output_tokens=40),
            "cost_usd": 0.25,
            "times": Times(occurred_at=at(0), sampled_at=at(1), judged_at=at(6), judge_seconds=2),
        }
    )


def test_what_the_judge_did_is_a_trace_of_its_own() -> None:
    result = asked()
    value = trace_request([Evaluation.of(result)], version="1.2.3")
    judging, call = spans(value)
    assert [one.trace_id for one in (judging, call)] == [result.result_id] * 2
    assert (judging.name, judging.parent_id) == ("evaluate relevance", "")
    assert (call.name, call.parent_id) == ("chat gpt-4.1", judging.span_id)
    # START is 1,741,960,800 s; sampled after 1 s, judged after 6 s, of which the call took the last 2.
    assert (judging.start, judging.end) == (1_741_960_801 * 10**9, 1_741_960_806 * 10**9)
    assert (call.start, call.end) == (1_741_960_804 * 10**9, 1_741_960_806 * 10**9)
    assert judging.attributes["gen_ai.evaluation.score.value"] == 4
    assert call.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1",
        "gen_ai.response.model": "gpt-4.1-2025",
        "gen_ai.usage.input_tokens": 700,
        "gen_ai.usage.cache_read.input_tokens": 600,
        "gen_ai.usage.output_tokens": 40,
        "judgestream.endpoint": "east",
        "judgestream.tries": 2,
        "judgestream.cost_usd": 0.25,
    }
    (of_service,) = OwnTraces.FromString(value).resource_spans
    ((link,), ()) = (one.links for one in of_service.scope_spans[0].spans)
    assert (link.trace_id.hex(), link.span_id.hex()) == (TRACE, SPAN)
    assert trace_request([Evaluation.of(result)], version="1.2.3") == value  # deterministic


@pytest.mark.parametrize("result", [asked(cached=True), failed(1), unscored(2)])
def test_without_a_call_there_is_the_judging_alone(result: AnyResult) -> None:
    (judging,) = spans(trace_request([Evaluation.of(result)], version="1"))
    assert judging.name == "evaluate relevance"
    assert judging.error == ("error" if result.status == "failed" else None)


def test_our_own_spans_are_not_judged() -> None:
    reader = OtlpReader(unit="trace", max_event_bytes=100_000)
    (trace,) = reader.parts(trace_request([Evaluation.of(asked())], version="1")).values()
    assert reader.read(trace).why_none == "ours"
