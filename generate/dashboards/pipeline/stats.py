"""The panels *Now*: one number each. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import METRIC, WINDOW, WORKER
from generate.dashboards.grafana import Line, Panel, Query
from generate.dashboards.pipeline.absence import NO_EVENTS, NO_WORKER

_EVENTS: Final = f"rate(judgestream_events_total{{{WORKER}}}[{WINDOW}])"

STATS: Final = Line(
    4,
    (
        Panel(
            title="Workers",
            description="Workers that Prometheus reaches, of those it knows. Fewer than you run: check the "
            "pods or processes first.",
            type="stat",
            unit="short",
            no_data=NO_WORKER,
            empty="no worker",
            queries=(Query(expr=f"sum(up{{{WORKER}}})", legend="up"),),
            alerts=("JudgestreamWorkerDown", "JudgestreamNoWorker"),
            thresholds=((1, "green"),),
            base_color="red",
            minimum=0,
        ),
        Panel(
            title="Events read",
            description="Events read per second, skipped ones included, all workers together.",
            type="stat",
            unit="eps",
            no_data=NO_WORKER,
            empty="no worker",
            queries=(Query(expr=f"sum({_EVENTS})", legend="read"),),
            minimum=0,
        ),
        Panel(
            title="Sampled",
            description="Share of the events read that was sampled. It follows from `sampling` in the "
            "settings; filtered events count as read.",
            type="stat",
            unit="percentunit",
            no_data=NO_EVENTS,
            empty="no events",
            queries=(
                Query(
                    expr=f'sum(rate(judgestream_events_total{{{WORKER}, outcome="sampled"}}[{WINDOW}])) '
                    f"/ (sum({_EVENTS}) > 0)",
                    legend="sampled",
                ),
            ),
            minimum=0,
            maximum=1,
        ),
        Panel(
            title="Results",
            description="Results per second, of every status, all metrics together.",
            type="stat",
            unit="cps",
            no_data=NO_WORKER,
            empty="no worker",
            queries=(
                Query(expr=f"sum(rate(judgestream_results_total{{{METRIC}}}[{WINDOW}]))", legend="results"),
            ),
            minimum=0,
        ),
        Panel(
            title="Oldest unfinished",
            description="Age of the oldest record in flight: results are late by this time. Yellow from 10 "
            "minutes, red from 30 (alert).",
            type="stat",
            unit="s",
            no_data=NO_WORKER,
            empty="no worker",
            queries=(Query(expr=f"max(judgestream_oldest_unfinished_seconds{{{WORKER}}})", legend="age"),),
            thresholds=((600, "yellow"), (1800, "red")),
            minimum=0,
        ),
        Panel(
            title="Dead letters, last hour",
            description="Dead letters in the hour before the end of the time range. They are on the topic "
            "qa.dead-letters with reason and original bytes. Yellow from the first one.",
            type="stat",
            unit="short",
            no_data="None so far",
            empty="none so far",
            queries=(
                Query(
                    expr=f"sum(increase(judgestream_dead_letters_total{{{WORKER}}}[1h]))",
                    legend="dead letters",
                ),
            ),
            thresholds=((0.5, "yellow"), (100, "red")),
            decimals=0,
            minimum=0,
        ),
    ),
)
