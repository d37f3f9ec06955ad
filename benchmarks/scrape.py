"""Duration of a scrape: 200 label combinations, both built-in metrics, every score.

The baseline is the Prometheus client's own encoder over the same registry.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from benchmarks.report import Line
from schemas import Evaluator, Sampling, Scored, Source, Times
from streams.telemetry.exposition import OPENMETRICS, TEXT, expose
from streams.telemetry.instruments import Metrics

APPS: Final = 20
MODELS: Final = 10
RUNS: Final = 21
LIMIT_MILLISECONDS: Final = 50


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one record per number."""
    registry = _registry()
    formats: tuple[tuple[str, str, Callable[[CollectorRegistry], bytes]], ...] = (
        ("text", TEXT, generate_latest),
        ("OpenMetrics", OPENMETRICS, generate_openmetrics),
    )
    for name, kind, baseline in formats:
        body = expose(registry, kind)
        series = sum(1 for line in body.splitlines() if not line.startswith(b"#"))
        value = _milliseconds(partial(expose, registry, kind))
        yield Line(
            f"scrape of {APPS * MODELS} label combinations, {name}",
            round(value, 1),
            "ms",
            baseline=round(_milliseconds(partial(baseline, registry)), 1),
            aim=f"below {LIMIT_MILLISECONDS} ms",
            met=value < LIMIT_MILLISECONDS,
            note=f"{series} series, {len(body) // 1024} KiB",
        ).as_json()


def _milliseconds(scrape: Callable[[], bytes]) -> float:
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        scrape()
        taken.append(time.perf_counter() - start)
    return median(taken) * 1000


def _registry() -> CollectorRegistry:
    metrics = Metrics(CollectorRegistry(), labels=("app", "model"), max_label_values=APPS)
    now = datetime.now(UTC)
    for number in range(APPS * MODELS):
        labels = {"app": f"app-{number % APPS}", "model": f"model-{number // APPS}"}
        for metric in ("relevance", "coverage"):
            for score in range(1, 6):
                metrics.observe_result(_scored(metric, score, labels, now))
    return metrics.registry


def _scored(metric: str, score: int, labels: dict[str, str], now: datetime) -> Scored:
    return Scored(
        result_id="0" * 32,
        event_id="e",
        trace_id="0af7651916cd43dd8448eb211c80319c",
        labels=labels,
        metric=metric,
        source=Source(topic="qa.events", partition=0, offset=0),
        evaluator=Evaluator(fingerprint="f", prompt="p", schema_="s", scoring="1", model="m"),
        sampling=Sampling(probability=0.5, stratum="default", policy="p"),
        times=Times(occurred_at=now, sampled_at=now, judged_at=now),
        verdict={"score": score, "justification": "x"},
        score=score,
    )


if __name__ == "__main__":
    for record in run():
        print(json.dumps(record))
