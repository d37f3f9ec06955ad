"""The panels *Workers*. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import WINDOW, WORKER
from generate.dashboards.grafana import Line, Panel, Query
from generate.dashboards.pipeline.absence import NO_WORKER

_NO_PROCESS: Final = "No worker is scraped under this job, or it does not run on Linux"

WORKERS: Final = (
    Line(
        7,
        (
            Panel(
                title="Workers by agent and version",
                description="Workers that run an agent, by version of judgestream. Two versions of one "
                "agent: a rollout is in progress, or is stuck. A line that ends: nothing runs this agent.",
                unit="short",
                no_data=NO_WORKER,
                queries=(
                    Query(
                        expr=f"count by (agent, version) (judgestream_worker_info{{{WORKER}}})",
                        legend="{{agent}} {{version}}",
                    ),
                ),
                alerts=("JudgestreamNoWorker", "JudgestreamNoStoreOrSink"),
                decimals=0,
                minimum=0,
            ),
            Panel(
                title="Restarts in the hour before, by worker",
                description="Starts of the process under the same address, within an hour. A pod that is "
                "replaced gets another address and is no restart. Line at the alert's limit for half an "
                "hour.",
                unit="short",
                no_data=_NO_PROCESS,
                queries=(
                    Query(
                        expr=f"changes(process_start_time_seconds{{{WORKER}}}[1h])",
                        legend="{{instance}}",
                    ),
                ),
                alerts=("JudgestreamWorkerRestarts",),
                thresholds=((3, "red"),),
                decimals=0,
                minimum=0,
            ),
            Panel(
                title="Memory, by worker",
                description="Memory of the worker's process, without that of a child process for Python "
                "metrics. A worker stays below 350 MiB; at the limit of its pod it is killed and starts "
                "again.",
                unit="bytes",
                no_data=_NO_PROCESS,
                queries=(Query(expr=f"process_resident_memory_bytes{{{WORKER}}}", legend="{{instance}}"),),
                minimum=0,
            ),
            Panel(
                title="CPU, by worker",
                description="Share of one core that the worker's process uses. Near 1 the process is the "
                "bottleneck: add workers.",
                unit="percentunit",
                no_data=_NO_PROCESS,
                queries=(
                    Query(
                        expr=f"rate(process_cpu_seconds_total{{{WORKER}}}[{WINDOW}])", legend="{{instance}}"
                    ),
                ),
                thresholds=((0.9, "yellow"),),
                minimum=0,
            ),
        ),
    ),
)
