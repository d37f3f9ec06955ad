"""The panels *Backlog*. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import WORKER
from generate.dashboards.grafana import Line, Panel, Query
from generate.dashboards.pipeline.absence import NO_WORKER

BACKLOG: Final = (
    Line(
        8,
        (
            Panel(
                title="Lag, by topic",
                description="Unfinished records, up to the end of the partitions. Lag on `judge.tasks.*` "
                "waits for a judge; lag on the events topic is unread. It should fall after each peak. "
                "While a partition moves, the larger of two reports counts.",
                unit="short",
                no_data=NO_WORKER,
                queries=(
                    Query(
                        expr="sum by (topic) (max by (job, topic, partition) "
                        f"(judgestream_consumer_lag_records{{{WORKER}}}))",
                        legend="{{topic}}",
                    ),
                ),
                alerts=("JudgestreamLagGrowing",),
                minimum=0,
            ),
            Panel(
                title="Age of the oldest record in flight, by topic",
                description="Seconds since the oldest unfinished record was produced; 0 if nothing is in "
                "flight. A straight rise is one stuck record, or a judge that is down. Lines at 10 and "
                "30 minutes.",
                unit="s",
                no_data=NO_WORKER,
                queries=(
                    Query(
                        expr=f"max by (topic) (judgestream_oldest_unfinished_seconds{{{WORKER}}})",
                        legend="{{topic}}",
                    ),
                ),
                alerts=("JudgestreamResultsLate", "JudgestreamNoProgress", "JudgestreamWorkerStuck"),
                thresholds=((600, "yellow"), (1800, "red")),
                minimum=0,
            ),
            Panel(
                title="Lag, by partition",
                description="The ten partitions with most lag. One partition behind while others are empty: "
                "a stuck record, or a key with most of the traffic.",
                unit="short",
                no_data=NO_WORKER,
                queries=(
                    Query(
                        expr="topk(10, max by (topic, partition) "
                        f"(judgestream_consumer_lag_records{{{WORKER}}}))",
                        legend="{{topic}} {{partition}}",
                    ),
                ),
                minimum=0,
            ),
        ),
    ),
)
