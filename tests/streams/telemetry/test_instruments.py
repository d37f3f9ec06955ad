from __future__ import annotations

import gc
import re
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from schemas import Correction, Failed, JudgeCall, Scored, Suspicion, Times, Unscored, Usage
from streams.settings.outputs import ObjectiveSettings
from streams.telemetry.catalogue import CATALOGUE
from streams.telemetry.exposition import OPENMETRICS, TEXT, PartitionState, expose
from streams.telemetry.instruments import Metrics
from streams.telemetry.labels import BoundedLabels, label_names
from tests.streams.results import at, failed, scored, unscored

# The names of the reference: a renamed metric breaks dashboards outside this repository.
_NAMES = {
    "counter": """
        judgestream_events_total judgestream_results_total judgestream_scores_total
        judgestream_score_weight_total judgestream_score_weighted_total
        judgestream_score_weighted_square_total judgestream_score_weight_square_total
        judgestream_score_weight_square_score_total judgestream_score_weight_square_score_square_total
        judgestream_judge_tokens_total judgestream_judge_cost_usd_total
        judgestream_judge_endpoint_failures_total judgestream_judge_model_changes_total
        judgestream_verdict_cache_failures_total judgestream_verdict_corrections_total
        judgestream_verdict_suspicions_total judgestream_dead_letters_total
        judgestream_dead_letters_skipped_total judgestream_lost_records_total
        judgestream_offset_moves_total judgestream_sink_verdicts_total
        judgestream_joins_closed_total judgestream_traces_without_content_total
        judgestream_objective_weight_total judgestream_objective_results_total
    """,
    "histogram": """
        judgestream_judge_call_seconds judgestream_event_to_result_seconds
        judgestream_panel_disagreement_ratio
    """,
    "gauge": """
        judgestream_judge_in_flight judgestream_judge_breaker_open judgestream_judge_budget_spent_ratio
        judgestream_consumer_lag_records judgestream_oldest_unfinished_seconds
        judgestream_joins_open judgestream_joins_late_records
        judgestream_monitor_state judgestream_monitor_evidence judgestream_monitor_threshold
        judgestream_monitor_baseline judgestream_monitor_tolerated judgestream_monitor_missing_strata
        judgestream_objective_share judgestream_score_range judgestream_evaluator_info
    """,
}


def _scored(score: int, **common: Any) -> Scored:
    changes = {
        "judge": JudgeCall(endpoint="primary", model_asked="m", model_answered="m-2026"),
        "usage": Usage(input_tokens=100, cached_tokens=40, output_tokens=7),
        "cost_usd": 0.25,
        "times": Times(occurred_at=at(0), sampled_at=at(0), judged_at=at(3), judge_seconds=1.0),
        "corrections": (Correction(kind="span_missing", detail="d"),),
        "suspicions": tuple(Suspicion(kind="no_citation", detail=detail) for detail in "de"),
    }
    return scored(0, score, **common).model_copy(update=changes)


def _value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_the_catalogue_has_the_agreed_names_and_types() -> None:
    """The catalogue contains each agreed name with its type; it may have more."""
    agreed = {(name, kind) for kind, names in _NAMES.items() for name in names.split()}
    assert {(spec.name, spec.type) for spec in CATALOGUE} >= agreed


def test_entries_follow_the_naming_conventions() -> None:
    """Only counters end in `_total`, only histograms have buckets, and each help is a sentence."""
    for spec in CATALOGUE:
        assert re.fullmatch(r"judgestream_[a-z_]+", spec.name)
        assert spec.name.endswith("_total") is (spec.type == "counter")
        assert spec.help.endswith(".")
        assert bool(spec.buckets) is (spec.type == "histogram")


def test_an_objective_counts_what_meets_it_and_what_misses_it() -> None:
    """Results are counted by whether they meet the objective, and both series exist from the first result.

    Of scores 3, 2 and 5 at p = 1/2 with 3 required, one misses: weights 4 and 2.
    """
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
    """Score 4 at p = 1/2 has w = 2: w=2, wx=8, wx2=32, w2=4, w2x=16, w2x2=64.

    Score 1 at p = 1 adds 1 to each.
    """
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(_scored(4, probability=0.5))
    metrics.observe_result(_scored(1))
    expected = {"weight": 3, "weighted": 9, "weighted_square": 33}
    expected |= {"weight_square": 5, "weight_square_score": 17, "weight_square_score_square": 65}
    by = {"metric": "relevance", "fingerprint": "f1"}
    assert {name: _value(metrics, f"judgestream_score_{name}_total", **by) for name in expected} == expected


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
    """Labels and booleans have a series each, numbers one per tenth of the range, named by its lower end."""
    metrics = Metrics(CollectorRegistry())
    metrics.set_range("relevance", 1.0, 5.0)
    one = _scored(0).model_copy(update=result)
    metrics.observe_result(one)
    assert _value(metrics, "judgestream_scores_total", metric="relevance", score=shown) == 1
    weighted = _value(metrics, "judgestream_score_weighted_total", metric="relevance", fingerprint="f1")
    assert weighted == one.amount


def test_a_scored_result_counts_everywhere_it_should() -> None:
    """A result counts by status, score, correction, suspicion, delay and evaluator.

    Its tokens are counted with each call instead.
    """
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(_scored(4))
    assert _value(metrics, "judgestream_results_total", metric="relevance", status="scored", reason="") == 1
    assert _value(metrics, "judgestream_scores_total", metric="relevance", score="4") == 1
    place = {"endpoint": "primary", "model": "m"}
    assert _value(metrics, "judgestream_judge_tokens_total", **place, kind="input") is None
    corrected = {"metric": "relevance", "kind": "span_missing"}
    assert _value(metrics, "judgestream_verdict_corrections_total", **corrected) == 1
    suspect = {"metric": "relevance", "kind": "no_citation"}  # twice in the verdict, which counts once
    assert _value(metrics, "judgestream_verdict_suspicions_total", **suspect) == 1
    assert _value(metrics, "judgestream_event_to_result_seconds_sum", metric="relevance") == 3
    assert (
        _value(metrics, "judgestream_evaluator_info", metric="relevance", fingerprint="f1", model="judge-1")
        == 1
    )


def test_tokens_and_cost_are_counted_with_each_call() -> None:
    """Tokens and cost are counted per call and endpoint; without a price there is no cost."""
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
        (unscored(1), "unscored", "no_claims"),
        (failed(1), "failed", "content_refused"),
    ],
)
def test_what_has_no_number_adds_to_no_average(result: Unscored | Failed, status: str, reason: str) -> None:
    """Unscored and failed results are counted with their reason and are in no sum."""
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(result)
    assert _value(metrics, "judgestream_results_total", metric="relevance", status=status, reason=reason) == 1
    assert _value(metrics, "judgestream_score_weight_total", metric="relevance") is None


def test_labels_are_bounded() -> None:
    """The first two values are kept, further ones are "other", and a missing label is ""."""
    bounded = BoundedLabels(("app", "model"), 2)
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")
    assert bounded.values({"app": "b"}) == ("b", "")
    assert bounded.values({"app": "c", "model": "m"}) == ("other", "m")
    assert bounded.values({"app": "a"}) == ("a", "")


def test_invented_values_give_way_to_real_ones() -> None:
    """Twenty values that are not seen again have no place for ever, and leave no series behind."""
    metrics = Metrics(CollectorRegistry(), labels=("tenant", "app"), max_label_values=20)
    for number in range(20):
        metrics.observe_result(_scored(3, labels={"tenant": f"invented-{number}", "app": "chat"}))
    for _ in range(10):
        for number in range(20):
            metrics.observe_result(_scored(3, labels={"tenant": f"real-{number}", "app": "chat"}))
    text = expose(metrics.registry, TEXT)
    assert b"invented-" not in text
    assert text.count(b"\njudgestream_scores_total{") == 21
    shown = {"metric": "relevance", "score": "3", "tenant": "real-7", "app": "chat"}
    assert _value(metrics, "judgestream_scores_total", **shown) == 3  # the first seven are in "other"


@given(st.lists(st.sampled_from("abcdefgh"), max_size=400), st.integers(1, 4))
def test_no_more_values_are_shown_than_have_a_place(values: list[str], limit: int) -> None:
    """However often values give way, those shown at a time are bounded, and each has a name of its own."""
    shown: set[str] = set()
    bounded = BoundedLabels(("app",), limit, forget=lambda _, gone: shown.remove(gone))
    for value in values:
        (given,) = bounded.values({"app": value})
        assert given in {value, "other"}
        if given != "other":
            shown.add(given)
        assert len(shown) <= limit


@pytest.mark.parametrize("value", ['x"} 1\nevil 2', "back\\slash", "\x00\x1b[31m", "a\u2028b", "é" * 200])
def test_hostile_label_values_stay_values(value: str) -> None:
    """Any label value leaves both formats readable and adds one series."""
    metrics = Metrics(CollectorRegistry(), labels=("app",))
    metrics.observe_result(_scored(3, labels={"app": "plain"}))
    before = generate_latest(metrics.registry).count(b"\n")
    metrics.observe_result(_scored(3, labels={"app": value}))
    per_series = sum(1 for spec in CATALOGUE if "<labels>" in spec.labels)
    lines = generate_latest(metrics.registry).split(b"\n")
    created = sum(b"_created{" in line and b"plain" in line for line in lines)
    assert generate_latest(metrics.registry).count(b"\n") - before == per_series + created
    assert generate_openmetrics(metrics.registry).endswith(b"# EOF\n")  # type: ignore[no-untyped-call] # not annotated


def test_combinations_of_labels_are_bounded_too() -> None:
    """Two combinations are kept; a third of known values is "other" in all labels."""
    bounded = BoundedLabels(("app", "model"), 10, max_combinations=2)
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")
    assert bounded.values({"app": "b", "model": "n"}) == ("b", "n")
    assert bounded.values({"app": "a", "model": "n"}) == ("other", "other")
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")


def test_ten_thousand_hostile_values_cost_what_a_few_cost() -> None:
    """Above the limit further values add neither series nor memory.

    20 values and "other" for app, three for tenant: at most 21 * 3 = 63 combinations of one score.
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
    """An invalid trace id of a task gives no exemplar."""
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(_scored(4).model_copy(update={"trace_id": trace_id}))
    assert b"trace_id" not in expose(metrics.registry, OPENMETRICS)


def test_scores_and_delays_show_an_example() -> None:
    """The latest trace id is the exemplar of its score and of the bucket of its delay (3 s is below 5 s)."""
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
    """A lone surrogate, which UTF-8 cannot encode, becomes a question mark."""
    assert BoundedLabels(("app",), 5).values({"app": "a\ud800b"}) == ("a?b",)


def test_event_label_names_become_legal_and_distinct() -> None:
    """Event label names become legal; names that clash or start with a digit get a prefix."""
    assert label_names(("prompt-version", "metric", "3d")) == {
        "prompt-version": "prompt_version",
        "metric": "event_metric",
        "3d": "event_3d",
    }
    for name in ("status", "reason", "score", "le", "quantile", "fingerprint"):
        assert label_names((name,))[name] != name
    with pytest.raises(ValueError, match="drop one"):
        label_names(("a-b", "a_b"))


def test_labels_of_other_metrics_are_free() -> None:
    """An event label may have the name of another metric's label, such as `model`."""
    names = ("model", "kind", "endpoint", "outcome", "topic", "partition")
    assert label_names(names) == {name: name for name in names}
    metrics = Metrics(CollectorRegistry(), labels=("model",))
    metrics.observe_result(_scored(4, labels={"model": "small-2"}))
    assert _value(metrics, "judgestream_scores_total", metric="relevance", score="4", model="small-2") == 1
    assert (
        _value(metrics, "judgestream_evaluator_info", metric="relevance", fingerprint="f1", model="judge-1")
        == 1
    )


def test_skips_are_counted_from_the_predicate_and_exactly() -> None:
    """Skips of the predicate and of the intake are summed exactly."""
    metrics = Metrics(CollectorRegistry())
    skips = {"not_sampled": 10**15}
    metrics.watch_skips(lambda: skips)
    metrics.count_event("skipped", "not_sampled")
    metrics.count_event("sampled")
    assert metrics.event_counts()["skipped", "not_sampled"] == 10**15 + 1
    assert _value(metrics, "judgestream_events_total", outcome="skipped", reason="not_sampled") == 10**15 + 1
    assert _value(metrics, "judgestream_events_total", outcome="sampled", reason="") == 1


def test_lag_and_age_are_read_at_the_scrape() -> None:
    """Lag is the partition's; age is that of the oldest record in flight, or 0."""
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
    """The budget's ratio is read at the scrape; without a budget there is no series."""
    metrics = Metrics(CollectorRegistry())
    name = "judgestream_judge_budget_spent_ratio"
    assert _value(metrics, name, period="day") is None
    spent = [0.25]
    metrics.watch_budget(lambda: spent[0])
    assert _value(metrics, name, period="day") == 0.25
    spent[0] = 1.0
    assert _value(metrics, name, period="day") == 1.0
