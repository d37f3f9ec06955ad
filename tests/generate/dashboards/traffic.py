"""Ten hours of metrics of three workers, made with the worker's `Metrics`, as input of promtool's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from prometheus_client import CollectorRegistry

from schemas import Correction, Failed, JudgeCall, Result, Scored, Suspicion, Usage
from streams.settings.outputs import ObjectiveSettings
from streams.telemetry.exposition import PartitionState, SeriesGauge, partition_values
from streams.telemetry.instruments import Metrics
from tests.streams.results import failed, scored, unscored

MINUTES = 10 * 60
"""Long enough for a baseline, which excludes the last six hours."""
SCORED_A_MINUTE = 8
"""By metric and app; enough for an interval over five minutes of one worker."""
DROP_FROM = MINUTES - 90
"""The first minute of bad answers, for an alert."""
JOB = "judgestream"
PLAIN_JOB = "without-labels"
_LABELS = ("app", "model", "prompt_version", "tenant")


_Rows = list[tuple[tuple[str, ...], dict[str, float]]]


def _gauges(fingerprint: str) -> dict[str, _Rows]:
    """Gauges of each metric: the labels after its name, and values by name."""
    anchors = {"mean": 0.1, "low": -0.1, "high": 0.3, "calls": 40, "shifted": 0}
    watched = {"state": 1, "evidence": 20, "threshold": 60_000, "baseline": 4.5, "tolerated": 4.4}
    return {
        "monitor": [
            ((fingerprint, "all"), {"missing_strata": 1}),
            (
                (fingerprint,),
                {"judge_names": 2, "two_phase_correlation": 0.8}
                | {f"anchors_{name}": one for name, one in anchors.items()},
            ),
            ((fingerprint, "all", "mean"), watched),
        ],
        "people": [((fingerprint,), {"mean": 3.6, "low": 3.4, "high": 3.8, "judge": 4.1})],
        "release": [(("prompt_version", "v7", "v8"), {"answer": 0, "low": -0.2, "high": 0.3})],
    }


def _series_gauges(rows: _Rows) -> Iterator[SeriesGauge]:
    for metric in ("coverage", "relevance"):
        for labels, values in rows:
            yield from (SeriesGauge(name, (metric, *labels), float(value)) for name, value in values.items())


class _Worker:
    def __init__(self, seed: int, labels: tuple[str, ...], fingerprint: str) -> None:
        objectives = dict.fromkeys(("coverage", "relevance"), ObjectiveSettings(at_least=3, share=0.9))
        self.metrics = Metrics(CollectorRegistry(), labels=labels, objectives=objectives)
        self._random = Random(seed)
        self._fingerprint = fingerprint
        self._minute = 0
        self.metrics.watch_series(
            "judgestream", lambda: partition_values(self._partitions(), 60.0 * self._minute)
        )
        self.metrics.set("judgestream_worker_info", "judge", "1.0.0", to=1)
        self.metrics.set("judgestream_judge_timeout_seconds", to=30)
        self.metrics.set_range("coverage", 0, 5)
        self.metrics.set_range("relevance", 1, 5)
        for name, rows in _gauges(fingerprint).items():
            self.metrics.watch_series(f"judgestream_{name}", partial(_series_gauges, rows))
        self.metrics.set(
            "judgestream_judge_budget_spent_ratio", "day", "all", to=lambda: self._minute % 1440 / 1500
        )
        self.metrics.set("judgestream_judge_budget_left_seconds", "all", to=3600)
        self.metrics.set("judgestream_sampling_rate", "default", to=0.05)

    def _partitions(self) -> Iterator[PartitionState]:
        for topic in ("qa.events", "judge.tasks.relevance"):
            yield PartitionState(topic, 0, 20 + self._minute % 7, 60.0 * self._minute - 4, 3, self._minute)

    def live(self, minute: int) -> None:
        self._minute = minute
        metrics = self.metrics
        for outcome, reason in (
            ("sampled", ""),
            ("skipped", "not_sampled"),
            ("undecodable", "undecodable"),
            ("unroutable", "unroutable"),
        ):
            metrics.count_event(outcome, reason)  # type: ignore[arg-type]  # the four literals
        metrics.count("judgestream_dead_letters_total", "undecodable")
        metrics.count("judgestream_offset_moves_total", "judge.tasks.relevance", "retention")
        metrics.count("judgestream_lost_records_total", "judge.tasks.relevance", by=3)
        metrics.count("judgestream_joins_closed_total", "trace", "root")
        metrics.count("judgestream_traces_without_content_total", "openai")
        metrics.count("judgestream_sink_verdicts_total", "langfuse", "written", by=3)
        metrics.set("judgestream_joins_open", "trace", to=2)
        metrics.set("judgestream_joins_late_records", "trace", to=1)
        for metric in ("coverage", "relevance"):
            for app in ("search", "support"):
                for _ in range(SCORED_A_MINUTE):
                    score = self._random.choice((1, 1, 2) if minute >= DROP_FROM else (4, 5, 5))
                    self._observe(partial(scored, score=score), metric, app)
            self._observe(unscored, metric, "search")
            self._observe(failed, metric, "search")
        for outcome in ("scored", "unscored", "invalid_verdict", "unavailable"):
            metrics.observe_call("primary", "judge-1", outcome, 1.5)
        metrics.set("judgestream_judge_in_flight", "primary", to=minute % 5)
        metrics.set("judgestream_judge_batch_requests", "primary", to=minute % 7)
        metrics.set("judgestream_judge_breaker_open", "primary", to=float(minute % 60 == 0))

    def _observe(self, make: Callable[..., Result], metric: str, app: str) -> None:
        made = make(
            0,
            metric=metric,
            labels={"app": app, "model": "small-2", "prompt_version": "v7", "tenant": "gold"},
            fingerprint=self._fingerprint,
            probability=self._random.choice((0.5, 1.0)),
            seconds=60 * self._minute,
        )
        later = {"judged_at": made.times.judged_at + timedelta(seconds=3), "judge_seconds": 1.5}
        told: dict[str, Any] = {
            "judge": JudgeCall(endpoint="primary", model_asked="judge-1", model_answered="judge-1"),
            "usage": Usage(input_tokens=900, cached_tokens=500, output_tokens=80),
            "cost_usd": 0.001,
            "agreement": 0.8,
            "times": made.times.model_copy(update=later),
        }
        if isinstance(made, Failed):
            told["error_type"] = "invalid_verdict"
        if isinstance(made, Scored):
            told["corrections"] = (Correction(kind="span_not_in_page", detail="-"),)
            told["suspicions"] = (Suspicion(kind="no_citation", detail="-"),)
        result = made.model_copy(update=told)
        self.metrics.observe_result(result)
        self.metrics.observe_usage("primary", "judge-1", result.usage, result.cost_usd)

    def samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        yield "up", {}, 1.0
        yield "process_start_time_seconds", {}, -60.0
        yield "process_resident_memory_bytes", {}, 2e8
        yield "process_cpu_seconds_total", {}, 9.0 * self._minute
        for family in self.metrics.registry.collect():
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    yield sample.name, sample.labels, sample.value


def _series(name: str, labels: Mapping[str, str]) -> str:
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def input_series() -> list[dict[str, str]]:
    series: dict[str, list[str]] = {}
    for job, instance, labels, seed in (
        (JOB, "worker-0:8080", _LABELS, 1),
        (JOB, "worker-1:8080", _LABELS, 2),
        (PLAIN_JOB, "worker-2:8080", (), 3),
    ):
        worker = _Worker(seed, labels, "5eed0fa11c0ffee5")
        own_series: set[str] = set()
        for minute in range(MINUTES):
            if instance == "worker-1:8080" and minute == MINUTES - 2:
                worker = _Worker(seed, labels, "0ddba11deadbeef0")  # a new version with another evaluator
            worker.live(minute)
            found = {
                _series(name, {**own, "job": job, "instance": instance}): value
                for name, own, value in worker.samples()
            }
            for key in own_series | found.keys():
                values = series.setdefault(key, ["_"] * minute)
                # Prometheus marks a series that a scrape no longer has.
                values.append(repr(found[key]) if key in found else "stale")
            own_series = set(found)
    return [{"series": key, "values": " ".join(values)} for key, values in series.items()]
