from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData as OwnTraces

from schemas import JudgeCall, Times, Usage
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.request import spans
from streams.sinks.base import AnyResult, Evaluation
from streams.sinks.otlp import log_request, trace_request
from tests.streams.results import at, failed, scored, unscored

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_score_is_a_value_with_its_explanation_and_weight() -> None:
    """A verdict has its span's ids, its score and explanation, and the id for deduplication."""
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
    """Judging is a span linked to the judged span, with the model call as its child."""
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
