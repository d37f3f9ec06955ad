from __future__ import annotations

import gc
import re
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from schemas import (
    Correction,
    Evaluator,
    Failed,
    JudgeCall,
    Sampling,
    Scored,
    Source,
    Suspicion,
    Times,
    Unscored,
    Usage,
)
from streams.settings.sections.monitor import ObjectiveSettings
from streams.telemetry.catalogue import CATALOGUE
from streams.telemetry.exposition import OPENMETRICS, TEXT, expose
from streams.telemetry.instruments import Metrics
from streams.telemetry.labels import BoundedLabels, label_names
from streams.telemetry.partitions import PartitionState

_T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

# The names of the reference, spelt out: a renamed metric breaks dashboards that are not in this repository.
_NAMES = {
    "judgestream_events_total": "counter",
    "judgestream_results_total": "counter",
    "judgestream_scores_total": "counter",
    "judgestream_score_weight_total": "counter",
    "judgestream_score_weighted_total": "counter",
    "judgestream_score_weighted_square_total": "counter",
    "judgestream_score_weight_square_total": "counter",
    "judgestream_score_weight_square_score_total": "counter",
    "judgestream_score_weight_square_score_square_total": "counter",
    "judgestream_judge_call_seconds": "histogram",
    "judgestream_judge_tokens_total": "counter",
    "judgestream_judge_cost_usd_total": "counter",
    "judgestream_judge_in_flight": "gauge",
    "judgestream_judge_breaker_open": "gauge",
    "judgestream_judge_budget_spent_ratio": "gauge",
    "judgestream_verdict_cache_failures_total": "counter",
    "judgestream_verdict_corrections_total": "counter",
    "judgestream_verdict_suspicions_total": "counter",
    "judgestream_event_to_result_seconds": "histogram",
    "judgestream_panel_disagreement_ratio": "histogram",
    "judgestream_consumer_lag_records": "gauge",
    "judgestream_oldest_unfinished_seconds": "gauge",
    "judgestream_dead_letters_total": "counter",
    "judgestream_dead_letters_skipped_total": "counter",
    "judgestream_lost_records_total": "counter",
    "judgestream_offset_moves_total": "counter",
    "judgestream_removed_metric_tasks": "gauge",
    "judgestream_results_repeated_total": "counter",
    "judgestream_sink_verdicts_total": "counter",
    "judgestream_joins_open": "gauge",
    "judgestream_joins_closed_total": "counter",
    "judgestream_joins_late_records": "gauge",
    "judgestream_traces_without_content_total": "counter",
    "judgestream_monitor_state": "gauge",
    "judgestream_monitor_evidence": "gauge",
    "judgestream_monitor_threshold": "gauge",
    "judgestream_monitor_baseline": "gauge",
    "judgestream_monitor_tolerated": "gauge",
    "judgestream_monitor_missing_strata": "gauge",
    "judgestream_objective_weight_total": "counter",
    "judgestream_objective_results_total": "counter",
    "judgestream_objective_share": "gauge",
    "judgestream_score_range": "gauge",
    "judgestream_evaluator_info": "gauge",
}


def _common(labels: dict[str, str], probability: float) -> dict[str, object]:
    return {
        "result_id": "0" * 32,
        "event_id": "e",
        "labels": labels,
        "metric": "relevance",
        "source": Source(topic="qa.events", partition=0, offset=0),
        "evaluator": Evaluator(fingerprint="f1", prompt="p", schema_="s", scoring="r-1", model="m"),
        "judge": JudgeCall(endpoint="primary", model_asked="m", model_answered="m-2026"),
        "usage": Usage(input_tokens=100, cached_tokens=40, output_tokens=7),
        "cost_usd": 0.25,
        "sampling": Sampling(probability=probability, stratum="default", policy="p"),
        "times": Times(
            occurred_at=_T0, sampled_at=_T0, judged_at=_T0 + timedelta(seconds=3), judge_seconds=1.0
        ),
    }


def _scored(score: int, *, probability: float = 1.0, labels: dict[str, str] | None = None) -> Scored:
    return Scored.model_validate(
        {
            **_common(labels or {}, probability),
            "verdict": {"score": score, "justification": "x"},
            "score": score,
            "corrections": (Correction(kind="span_missing", detail="d"),),
            "suspicions": (
                Suspicion(kind="no_citation", detail="d"),
                Suspicion(kind="no_citation", detail="e"),
            ),
        }
    )


def _value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_the_catalogue_has_the_agreed_names_and_types() -> None:
    """Others may come; none of these goes, for dashboards and alerts of others read them."""
    assert {spec.name: spec.type for spec in CATALOGUE}.items() >= _NAMES.items()


def test_entries_follow_the_naming_conventions() -> None:
    """Base units, `_total` on counters alone, one sentence of help each."""
    for spec in CATALOGUE:
        assert re.fullmatch(r"judgestream_[a-z_]+", spec.name)
        assert spec.name.endswith("_total") is (spec.type == "counter")
        assert spec.help.endswith(".")
        assert bool(spec.buckets) is (spec.type == "histogram")


def test_an_objective_counts_what_meets_it_and_what_misses_it() -> None:
    """Of 3, 2 and 5 at p = 1/2 with 3 wanted, one misses: 2 of 6. Both series begin with the first result."""
    objectives = {"relevance": ObjectiveSettings(at_least=3, share=0.9)}
    metrics = Metrics(CollectorRegistry(), objectives=objectives)
    by = {"metric": "relevance", "fingerprint": _scored(3).evaluator.fingerprint}
    weight, results = "judgestream_objective_weight_total", "judgestream_objective_results_total"
    metrics.observe_result(_scored(3, probability=0.5))
    assert [_value(metrics, name, **by, met="no") for name in (weight, results)] == [0, 0]
    metrics.observe_result(_scored(2, probability=0.5))
    metrics.observe_result(_scored(5, probability=0.5))
    assert [_value(metrics, weight, **by, met=met) for met in ("yes", "no")] == [4, 2]
    assert [_value(metrics, results, **by, met=met) for met in ("yes", "no")] == [2, 1]
    assert _value(metrics, "judgestream_objective_share", metric="relevance") == 0.9


def test_the_six_sums_of_a_weighted_score() -> None:
    """Score 4 at p = 1/2: w = 2, so w=2, wx=8, wx2=32, w2=4, w2x=16, w2x2=64.

    Score 1 at p = 1 adds 1 to each.
    """
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(_scored(4, probability=0.5))
    metrics.observe_result(_scored(1))
    expected = {
        "weight": 3,
        "weighted": 9,
        "weighted_square": 33,
        "weight_square": 5,
        "weight_square_score": 17,
        "weight_square_score_square": 65,
    }
    for name, value in expected.items():
        assert (
            _value(metrics, f"judgestream_score_{name}_total", metric="relevance", fingerprint="f1") == value
        )


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"kind": "number", "value": 1.73, "score": 2}, "1.4"),  # tenths of 1 to 5 are 0.4 wide
        ({"kind": "number", "value": 1.0, "score": 1}, "1"),
        ({"kind": "number", "value": 5.0, "score": 5}, "4.6"),
        ({"kind": "boolean", "value": True, "score": 0}, "true"),
        ({"kind": "label", "value": "refused", "score": 0}, "refused"),
    ],
)
def test_the_distribution_is_by_label_and_by_tenths_of_a_scale(result: dict[str, object], shown: str) -> None:
    """Labels and booleans have a series each.

    Numbers one for each tenth of their scale, named by its lower end.
    """
    metrics = Metrics(CollectorRegistry())
    metrics.set_range("relevance", 1.0, 5.0)
    scored = _scored(0).model_copy(update=result)
    metrics.observe_result(scored)
    assert _value(metrics, "judgestream_scores_total", metric="relevance", score=shown) == 1
    weighted = _value(metrics, "judgestream_score_weighted_total", metric="relevance", fingerprint="f1")
    assert weighted == scored.amount


def test_a_scored_result_counts_everywhere_it_should() -> None:
    """Status, score, corrections, delay and evaluator of one result.

    Its tokens were counted with each call.
    """
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(_scored(4))
    assert _value(metrics, "judgestream_results_total", metric="relevance", status="scored", reason="") == 1
    assert _value(metrics, "judgestream_scores_total", metric="relevance", score="4") == 1
    place = {"endpoint": "primary", "model": "m"}
    assert _value(metrics, "judgestream_judge_tokens_total", **place, kind="input") is None
    assert (
        _value(metrics, "judgestream_verdict_corrections_total", metric="relevance", kind="span_missing") == 1
    )
    # A verdict counts once with a kind, however often it has it.
    assert (
        _value(metrics, "judgestream_verdict_suspicions_total", metric="relevance", kind="no_citation") == 1
    )
    assert _value(metrics, "judgestream_event_to_result_seconds_sum", metric="relevance") == 3
    assert _value(metrics, "judgestream_evaluator_info", metric="relevance", fingerprint="f1", model="m") == 1


def test_tokens_and_cost_are_counted_with_each_call() -> None:
    """By whom was asked; without a price no cost is claimed."""
    metrics = Metrics(CollectorRegistry())
    usage = Usage(input_tokens=100, cached_tokens=40, output_tokens=7)
    metrics.observe_usage("primary", "m", usage, 0.25)
    metrics.observe_usage("primary", "m", usage, 0.25)
    metrics.observe_usage("spare", "n", usage, None)
    place = {"endpoint": "primary", "model": "m"}
    for kind, tokens in (("input", 200), ("cached", 80), ("output", 14)):
        assert _value(metrics, "judgestream_judge_tokens_total", **place, kind=kind) == tokens
    assert _value(metrics, "judgestream_judge_cost_usd_total", **place) == 0.5
    assert _value(metrics, "judgestream_judge_cost_usd_total", endpoint="spare", model="n") is None


@pytest.mark.parametrize(
    ("result", "status", "reason"),
    [
        (Unscored.model_validate({**_common({}, 1.0), "reason": "no_claims"}), "unscored", "no_claims"),
        (
            Failed.model_validate({**_common({}, 1.0), "error_type": "reply_cut", "detail": "d"}),
            "failed",
            "reply_cut",
        ),
    ],
)
def test_what_has_no_number_adds_to_no_average(result: Unscored | Failed, status: str, reason: str) -> None:
    """Unscored and failed results are counted with their reason and leave all sums alone."""
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(result)
    assert _value(metrics, "judgestream_results_total", metric="relevance", status=status, reason=reason) == 1
    assert _value(metrics, "judgestream_score_weight_total", metric="relevance") is None


def test_labels_are_bounded() -> None:
    """The first two apps keep their names, the third is "other", an event without the label is ""."""
    bounded = BoundedLabels(("app", "model"), 2)
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")
    assert bounded.values({"app": "b"}) == ("b", "")
    assert bounded.values({"app": "c", "model": "m"}) == ("other", "m")
    assert bounded.values({"app": "a"}) == ("a", "")


@pytest.mark.parametrize("value", ['x"} 1\nevil 2', "back\\slash", "\x00\x1b[31m", "a\u2028b", "é" * 200])
def test_hostile_label_values_stay_values(value: str) -> None:
    """Whatever stands in an event's label, both expositions stay readable and gain one series."""
    metrics = Metrics(CollectorRegistry(), labels=("app",))
    metrics.observe_result(_scored(3, labels={"app": "plain"}))
    before = generate_latest(metrics.registry).count(b"\n")
    metrics.observe_result(_scored(3, labels={"app": value}))
    per_series = sum(1 for spec in CATALOGUE if "<labels>" in spec.labels)
    created = sum(
        1
        for line in generate_latest(metrics.registry).split(b"\n")
        if b"_created{" in line and b"plain" in line
    )
    assert generate_latest(metrics.registry).count(b"\n") - before == per_series + created
    assert generate_openmetrics(metrics.registry).endswith(b"# EOF\n")  # type: ignore[no-untyped-call] # the library left it so


def test_combinations_of_labels_are_bounded_too() -> None:
    """Two combinations are kept; a third, though of known values, is "other" in all labels."""
    bounded = BoundedLabels(("app", "model"), 10, max_combinations=2)
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")
    assert bounded.values({"app": "b", "model": "n"}) == ("b", "n")
    assert bounded.values({"app": "a", "model": "n"}) == ("other", "other")
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")


def test_ten_thousand_hostile_values_cost_what_a_few_cost() -> None:
    """After the bound is reached, further values add neither series nor memory.

    20 values and "other" for app; the tenant is one of three. 21 * 3 = 63 combinations of one score each, at
    most.
    """
    metrics = Metrics(CollectorRegistry(), labels=("app", "tenant"), max_label_values=20)

    def flood(start: int, count: int) -> None:
        for number in range(start, start + count):
            app = f'app-{number}\n\x1b"{{}}' + "x" * (number % 100)
            metrics.observe_result(_scored(3, labels={"app": app, "tenant": f"t{number % 3}"}))

    flood(0, 500)
    before = expose(metrics.registry, TEXT).count(b"\n")
    tracemalloc.start()
    try:
        flood(500, 9_500)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    after = expose(metrics.registry, TEXT)
    assert after.count(b"\n") == before
    assert after.count(b"\njudgestream_scores_total{") <= 63
    assert grown < 200_000


@pytest.mark.parametrize("trace_id", ["x", "0" * 500, 'a" 1\n', "G" * 32])
def test_a_trace_id_that_is_none_becomes_no_exemplar(trace_id: str) -> None:
    """Tasks come from a topic: what stands there is not trusted."""
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(_scored(4).model_copy(update={"trace_id": trace_id}))
    assert b"trace_id" not in expose(metrics.registry, OPENMETRICS)


def test_scores_and_delays_show_an_example() -> None:
    """The trace id of the latest result stands beside its score and in the bucket of its delay: 3 s is below
    5 s.
    """
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(_scored(4).model_copy(update={"trace_id": "0af7651916cd43dd8448eb211c80319c"}))
    example = '# {trace_id="0af7651916cd43dd8448eb211c80319c"}'
    lines = expose(metrics.registry, OPENMETRICS).decode().splitlines()
    assert [line.partition(" ")[0] for line in lines if example in line] == [
        'judgestream_scores_total{metric="relevance",score="4"}',
        'judgestream_event_to_result_seconds_bucket{le="5.0",metric="relevance"}',
    ]
    assert b"trace_id" not in expose(metrics.registry, TEXT)


def test_a_lone_surrogate_does_not_break_the_exposition() -> None:
    """It cannot be written as UTF-8, so it becomes a question mark."""
    assert BoundedLabels(("app",), 5).values({"app": "a\ud800b"}) == ("a?b",)


def test_event_label_names_become_legal_and_distinct() -> None:
    """`prompt-version` loses its dash; `metric` and `3d` would clash or be illegal and get a prefix."""
    assert label_names(("prompt-version", "metric", "3d")) == {
        "prompt-version": "prompt_version",
        "metric": "event_metric",
        "3d": "event_3d",
    }
    assert {
        name
        for name in ("status", "reason", "score", "le", "quantile", "fingerprint")
        if label_names((name,))[name] == name
    } == set()
    with pytest.raises(ValueError, match="drop one"):
        label_names(("a-b", "a_b"))


def test_labels_of_other_metrics_are_free() -> None:
    """The event label `model` keeps its name on results; `model` of judge calls is another metric's."""
    names = ("model", "kind", "endpoint", "outcome", "topic", "partition")
    assert label_names(names) == {name: name for name in names}
    metrics = Metrics(CollectorRegistry(), labels=("model",))
    metrics.observe_result(_scored(4, labels={"model": "small-2"}))
    assert _value(metrics, "judgestream_scores_total", metric="relevance", score="4", model="small-2") == 1
    assert _value(metrics, "judgestream_evaluator_info", metric="relevance", fingerprint="f1", model="m") == 1


def test_skips_are_counted_from_the_predicate_and_exactly() -> None:
    """Skips counted outside and inside add up under one name."""
    metrics = Metrics(CollectorRegistry())
    skips = {"not_sampled": 10**15}
    metrics.watch_skips(lambda: skips)
    metrics.count_event("skipped", "not_sampled")
    metrics.count_event("sampled")
    assert metrics.event_counts()["skipped", "not_sampled"] == 10**15 + 1
    assert _value(metrics, "judgestream_events_total", outcome="skipped", reason="not_sampled") == 10**15 + 1
    assert _value(metrics, "judgestream_events_total", outcome="sampled", reason="") == 1


def test_lag_and_age_are_read_at_the_scrape() -> None:
    """Lag as the partition stands; age from the oldest record in flight, 0 without one."""
    metrics = Metrics(CollectorRegistry())
    states = [
        PartitionState(topic="t", partition=0, lag_records=5, oldest_timestamp=90.0, unfinished=2),
        PartitionState(topic="t", partition=1, lag_records=None, oldest_timestamp=None, unfinished=0),
    ]
    metrics.watch_partitions(lambda: states, lambda: 100.0)
    assert _value(metrics, "judgestream_consumer_lag_records", topic="t", partition="0") == 5
    assert _value(metrics, "judgestream_oldest_unfinished_seconds", topic="t", partition="0") == 10
    assert _value(metrics, "judgestream_consumer_lag_records", topic="t", partition="1") is None
    assert _value(metrics, "judgestream_oldest_unfinished_seconds", topic="t", partition="1") == 0


def test_the_budget_is_read_when_it_is_asked_for() -> None:
    """Without a budget there is no series."""
    metrics = Metrics(CollectorRegistry())
    name = "judgestream_judge_budget_spent_ratio"
    assert _value(metrics, name, period="hour") is None
    spent = {"hour": 0.25, "day": 0.5}
    metrics.watch_budget(lambda period: spent[period])
    assert (_value(metrics, name, period="hour"), _value(metrics, name, period="day")) == (0.25, 0.5)
    spent["hour"] = 1.0
    assert _value(metrics, name, period="hour") == 1.0
