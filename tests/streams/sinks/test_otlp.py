"""A verdict as a log event that any OTLP receiver reads."""

from __future__ import annotations

from typing import Any

import pytest

from streams.intake.reading.otlp.requests.wire import spans
from streams.sinks.evaluation import AnyResult, evaluation
from streams.sinks.otlp import log_request
from tests.streams.results import failed, scored, unscored

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def attributes_of(result: AnyResult) -> dict[str, Any]:
    (record,) = spans(log_request([evaluation(result)], version="1.2.3"))
    assert record.is_log
    return dict(record.attributes)


def test_a_score_is_a_value_with_its_explanation_and_weight() -> None:
    """Beside the span it is about, with the id by which receivers drop duplicates."""
    result = scored(1, 4, probability=0.25, labels={"app": "shop"}, seconds=0.453029).model_copy(
        update={"trace_id": TRACE, "span_id": SPAN}
    )
    (record,) = spans(log_request([evaluation(result)], version="1.2.3"))
    assert (record.name, record.trace_id, record.span_id) == ("gen_ai.evaluation.result", TRACE, SPAN)
    assert record.resource == {"service.name": "judgestream", "service.version": "1.2.3"}
    assert record.start == 1_741_960_800_453_029_000  # START and 0.453029 s
    assert record.attributes == {
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


def test_a_failed_verdict_has_an_error_type_and_no_score() -> None:
    """And what went wrong as its explanation."""
    found = attributes_of(failed(1))
    assert found["error.type"] == "content_refused"
    assert found["gen_ai.evaluation.explanation"] == "the filter said no"
    assert not {"gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"} & found.keys()


@pytest.mark.parametrize(
    ("kind", "value", "label"), [("label", "polite", "polite"), ("boolean", True, "true")]
)
def test_a_label_stands_beside_its_number(kind: str, value: str | bool, label: str) -> None:
    """What a number means on such a scale, only its label says."""
    found = attributes_of(scored(1, 4).model_copy(update={"kind": kind, "value": value}))
    assert found["gen_ai.evaluation.score.label"] == label
    assert found["gen_ai.evaluation.score.value"] == 4


def test_an_unscored_verdict_has_a_label_and_no_score() -> None:
    """Nothing that could be taken for a low score."""
    found = attributes_of(unscored(1))
    assert found["gen_ai.evaluation.score.label"] == "unscored: no_claims"
    assert not {"gen_ai.evaluation.score.value", "error.type"} & found.keys()


@pytest.mark.parametrize("trace_id", [None, "short"])
def test_an_answer_without_a_trace_gives_an_event_without_one(trace_id: str | None) -> None:
    """An id of another form would have a Collector refuse the whole request."""
    result = scored(1, 4).model_copy(update={"trace_id": trace_id})
    (record,) = spans(log_request([evaluation(result)], version="1"))
    assert record.trace_id == ""
