from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from schemas import Correction, Failed, JudgeCall, Scored, Suspicion, Times, Unscored, Usage
from streams.settings.outputs import ObjectiveSettings
from streams.telemetry import exposition
from streams.telemetry.catalogue import CATALOGUE, LABELS, SUMS
from streams.telemetry.exposition import OPENMETRICS, TEXT, PartitionState, SeriesGauge, content_type, expose
from streams.telemetry.instruments import Metrics
from streams.telemetry.labels import OTHERS_PER_PLACE, BoundedLabels, label_names
from tests.places import ROOT
from tests.streams.results import at, failed, scored, unscored

_NAMES = Path(__file__).with_name("names.txt").read_text("utf-8").splitlines()[1:]
_TRACE = "0af7651916cd43dd8448eb211c80319c"
_METRIC = 'metric="relevance"'
_SERIES = f'fingerprint="f1",{_METRIC}'


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


def _lines(metrics: Metrics) -> dict[str, float]:
    lines = expose(metrics.registry, TEXT).decode().splitlines()
    found = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name.removeprefix("judgestream_"): float(value) for name, _, value in found}


def test_the_catalogue_has_the_agreed_names_and_types_and_follows_the_conventions() -> None:
    assert {f"{spec.type} {spec.name}" for spec in CATALOGUE} >= set(_NAMES)
    assert len(_NAMES) > 40
    for spec in CATALOGUE:
        assert re.fullmatch(r"judgestream_[a-z_]+", spec.name)
        assert spec.name.endswith("_total") is (spec.type == "counter")
        assert spec.help.endswith(".")
        assert bool(spec.buckets) is (spec.type == "histogram")


def test_only_metrics_of_the_catalogue_are_counted() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "streams").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r'(?:count|set)\(\s*"(judgestream_\w+)"', text)}
    assert len(named) > 10
    assert named <= {spec.name for spec in CATALOGUE}


def _observed(*results: Scored | Unscored | Failed) -> Callable[[Metrics], None]:
    def observe(metrics: Metrics) -> None:
        for result in results:
            metrics.observe_result(result)

    return observe


def _used(metrics: Metrics) -> None:
    usage = Usage(input_tokens=100, cached_tokens=40, output_tokens=7)
    for endpoint, model, cost in (("primary", "m", 0.25), ("primary", "m", 0.25), ("spare", "n", None)):
        metrics.observe_usage(endpoint, model, usage, cost)


def _counted(metrics: Metrics) -> None:
    metrics.skips = {"not_sampled": 10**15}
    metrics.count_event("skipped", "not_sampled")
    metrics.count_event("sampled")


def _partitions(metrics: Metrics) -> None:
    states = [
        PartitionState("t", 0, lag_records=5, oldest_timestamp=90.0, unfinished=2, finished=7),
        PartitionState("t", 1, lag_records=None, oldest_timestamp=None, unfinished=0, finished=0),
    ]
    metrics.watch_series("judgestream", lambda: exposition.partition_values(states, 100.0))


_PRIMARY = 'endpoint="primary"'


@pytest.mark.parametrize(
    ("observe", "lines"),
    [
        pytest.param(
            _observed(_scored(4)),
            {
                f'results_total{{{_METRIC},reason="",status="scored"}}': 1,
                f'scores_total{{{_METRIC},score="4"}}': 1,
                f'verdict_corrections_total{{kind="span_missing",{_METRIC}}}': 1,
                # Twice in the verdict, which counts once.
                f'verdict_suspicions_total{{kind="no_citation",{_METRIC}}}': 1,
                f"event_to_result_seconds_sum{{{_METRIC}}}": 3,
                f'evaluator_info{{{_SERIES},model="judge-1"}}': 1,
                # Tokens are counted with each call instead.
                f'judge_tokens_total{{{_PRIMARY},kind="input",model="m"}}': None,
            },
            id="a scored result",
        ),
        pytest.param(
            # Score 4 at p = 1/2 has w = 2: w=2, wx=8, wx2=32, w2=4, w2x=16, w2x2=64; score 1 adds 1 to each.
            _observed(_scored(4, probability=0.5), _scored(1)),
            {
                f"score_{name}_total{{{_SERIES}}}": value
                for name, value in zip(SUMS, (3, 9, 33, 5, 17, 65), strict=True)
            },
            id="the six sums",
        ),
        pytest.param(
            _observed(
                _scored(4).model_copy(update={"cost_usd": 0.25}),
                unscored(1).model_copy(update={"cost_usd": 0.5}),
                failed(1),
            ),
            {f"result_cost_usd_total{{{_METRIC}}}": 0.75},
            id="the cost of results, if it is known",
        ),
        pytest.param(
            _observed(unscored(1), failed(1)),
            {
                f'results_total{{{_METRIC},reason="no_claims",status="unscored"}}': 1,
                f'results_total{{{_METRIC},reason="content_refused",status="failed"}}': 1,
                f"score_weight_total{{{_SERIES}}}": None,
            },
            id="what has no number adds to no average",
        ),
        pytest.param(
            # One of three misses 3; both series exist from the first result.
            _observed(_scored(3, probability=0.5), _scored(2, probability=0.5), _scored(5, probability=0.5)),
            {
                f'objective_weight_total{{fingerprint="f1",met="yes",{_METRIC}}}': 4,
                f'objective_weight_total{{fingerprint="f1",met="no",{_METRIC}}}': 2,
                f'objective_results_total{{fingerprint="f1",met="yes",{_METRIC}}}': 2,
                f'objective_results_total{{fingerprint="f1",met="no",{_METRIC}}}': 1,
                f"objective_share{{{_METRIC}}}": 0.9,
            },
            id="an objective",
        ),
        pytest.param(
            _used,
            {
                f'judge_tokens_total{{{_PRIMARY},kind="input",model="m"}}': 200,
                f'judge_tokens_total{{{_PRIMARY},kind="cached",model="m"}}': 80,
                f'judge_tokens_total{{{_PRIMARY},kind="output",model="m"}}': 14,
                f'judge_cost_usd_total{{{_PRIMARY},model="m"}}': 0.5,
                'judge_cost_usd_total{endpoint="spare",model="n"}': None,
            },
            id="tokens and cost, if the price is known",
        ),
        pytest.param(
            _counted,
            {
                'events_total{outcome="skipped",reason="not_sampled"}': 10**15 + 1,
                'events_total{outcome="sampled",reason=""}': 1,
            },
            id="skips of the predicate and of the intake",
        ),
        pytest.param(
            _partitions,
            {
                'consumer_lag_records{partition="0",topic="t"}': 5,
                'consumer_finished_records{partition="0",topic="t"}': 7,
                'oldest_unfinished_seconds{partition="0",topic="t"}': 10,
                'consumer_lag_records{partition="1",topic="t"}': None,
                'oldest_unfinished_seconds{partition="1",topic="t"}': 0,
            },
            id="lag, progress and age",
        ),
    ],
)
def test_what_is_observed_is_exposed(
    observe: Callable[[Metrics], None], lines: dict[str, float | None]
) -> None:
    """None stands for a series that does not exist."""
    metrics = Metrics(CollectorRegistry(), objectives={"relevance": ObjectiveSettings(at_least=3, share=0.9)})
    observe(metrics)
    found = _lines(metrics)
    assert {name: found.get(name) for name in lines} == lines


def test_the_budget_is_read_when_it_is_asked_for() -> None:
    metrics, spent = Metrics(CollectorRegistry()), [0.25]
    assert 'judge_budget_spent_ratio{cap="all",period="day"}' not in _lines(metrics)
    metrics.set("judgestream_judge_budget_spent_ratio", "day", "all", to=lambda: spent[0])
    spent[0] = 1.0
    assert _lines(metrics)['judge_budget_spent_ratio{cap="all",period="day"}'] == 1.0


@pytest.mark.parametrize(
    "prefix", ["judgestream_monitor_window", "judgestream_people", "judgestream_release"]
)
def test_series_that_come_and_go_are_described_once(prefix: str) -> None:
    metrics = Metrics(CollectorRegistry())
    labels = next(spec.labels for spec in CATALOGUE if spec.name == f"{prefix}_low")
    metrics.watch_series(prefix, lambda: [SeriesGauge("low", labels, 1.0)])
    assert expose(metrics.registry, OPENMETRICS).count(f"# TYPE {prefix}_low ".encode()) == 1


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
    metrics, one = Metrics(CollectorRegistry()), _scored(0).model_copy(update=result)
    metrics.set_range("relevance", 1.0, 5.0)
    metrics.observe_result(one)
    lines = _lines(metrics)
    assert lines[f'scores_total{{{_METRIC},score="{shown}"}}'] == 1
    assert lines[f"score_weighted_total{{{_SERIES}}}"] == one.amount


@pytest.mark.parametrize("trace_id", [_TRACE, "x", "0" * 500, 'a" 1\n', "G" * 32])
def test_scores_and_delays_show_an_example(trace_id: str) -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.observe_result(_scored(4).model_copy(update={"trace_id": trace_id}))
    lines = expose(metrics.registry, OPENMETRICS).decode().splitlines()
    expected = [
        'judgestream_scores_total{metric="relevance",score="4"}',
        'judgestream_event_to_result_seconds_bucket{le="5.0",metric="relevance"}',
    ]
    found = [line.partition(" ")[0] for line in lines if "trace_id" in line]
    assert found == (expected if trace_id == _TRACE else [])
    assert b"trace_id" not in expose(metrics.registry, TEXT)


def test_the_accept_header_chooses_the_format() -> None:
    assert content_type("") == content_type("text/html,application/xhtml+xml,*/*") == TEXT
    accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;q=0.5"
    assert content_type(accept) == OPENMETRICS


@pytest.mark.parametrize("kind", [TEXT, OPENMETRICS])
def test_a_new_series_is_shown_as_0_once_so_that_increase_sees_its_first_step(kind: str) -> None:
    registry = CollectorRegistry()
    counter = Counter("c_total", "C.", ["app"], registry=registry)
    seconds = Histogram("h", "H.", registry=registry, buckets=(1.0,))
    Gauge("g", "G.", registry=registry).set(7)
    Info("i", "I.", registry=registry).info({"version": "1"})
    counter.labels("a").inc(3)
    seconds.observe(0.5)
    shown: set[tuple[object, ...]] = set()

    def lines() -> set[str]:
        return set(expose(registry, kind, shown).decode().splitlines())

    steady = {"g 7.0", 'i_info{version="1"} 1.0'}
    assert lines() >= {'c_total{app="a"} 0.0', "h_count 0.0", 'h_bucket{le="1.0"} 0.0', *steady}
    assert lines() >= {'c_total{app="a"} 3.0', "h_count 1.0", 'h_bucket{le="1.0"} 1.0', *steady}
    counter.labels("b").inc(5)
    assert lines() >= {'c_total{app="a"} 3.0', 'c_total{app="b"} 0.0'}
    assert b'c_total{app="b"} 5.0' in expose(registry, kind)
    assert b"_created" not in expose(registry, kind)


def test_labels_and_their_combinations_are_bounded() -> None:
    bounded = BoundedLabels(("app", "model"), 2)
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")
    assert bounded.values({"app": "b"}) == ("b", "")
    assert bounded.values({"app": "c", "model": "m"}) == ("other", "m")
    assert bounded.values({"app": "a\ud800b"}) == ("other", "")
    bounded = BoundedLabels(("app", "model"), 10, max_combinations=2)
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")
    assert bounded.values({"app": "a\ud800b", "model": "n"}) == ("a?b", "n")
    assert bounded.values({"app": "a", "model": "n"}) == ("other", "other")
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")


def test_invented_values_give_way_to_real_ones() -> None:
    metrics = Metrics(CollectorRegistry(), labels=("tenant", "app"))
    for prefix, times in (("invented", 1), ("real", 10)):
        for number in [*range(20)] * times:
            labels = {"tenant": f"{prefix}-{number}", "app": "chat"}
            metrics.observe_result(scored(number, 3, labels=labels))
    text = expose(metrics.registry, TEXT)
    assert b"invented-" not in text
    assert text.count(b"\njudgestream_scores_total{") == 21
    # The first seven are in "other".
    assert b'scores_total{app="chat",metric="relevance",score="3",tenant="real-7"} 3.0' in text


@example([str(number) for number in range(400)], 1)
@given(st.lists(st.integers(0, 60).map(str), max_size=400), st.integers(1, 4))
def test_no_more_values_are_shown_than_have_a_place(values: list[str], limit: int) -> None:
    shown: set[str] = set()
    bounded = BoundedLabels(("app",), limit, forget=lambda _, gone: shown.remove(gone))
    for value in values:
        (given,) = bounded.values({"app": value})
        assert given in {value, "other"}
        shown |= {given} - {"other"}
        assert len(shown) <= limit
        assert len(bounded._places[0]._others) <= OTHERS_PER_PLACE * limit


@pytest.mark.parametrize("value", ['x"} 1\nevil 2', "back\\slash", "\x00\x1b[31m", "a\u2028b", "é" * 200])
@pytest.mark.parametrize("kind", [TEXT, OPENMETRICS])
def test_hostile_label_values_stay_values(value: str, kind: str) -> None:
    metrics = Metrics(CollectorRegistry(), labels=("app",))
    counts = []
    for app in ("plain", value):
        result = scored(1, 3, labels={"app": app})
        metrics.observe_result(result.model_copy(update={"cost_usd": 0.1}))
        counts.append(len(expose(metrics.registry, kind).split(b"\n")))
    assert counts[1] - counts[0] == sum(LABELS in spec.labels for spec in CATALOGUE)


def test_event_label_names_become_legal_and_distinct() -> None:
    names = ("prompt-version", "metric", "3d", "status", "reason", "score", "le", "quantile", "fingerprint")
    assert list(label_names(names).values()) == ["prompt_version", *(f"event_{name}" for name in names[1:])]
    free = ("model", "kind", "endpoint", "outcome", "topic", "partition")
    assert label_names(free) == {name: name for name in free}
    with pytest.raises(ValueError, match="drop one"):
        label_names(("a-b", "a_b"))
