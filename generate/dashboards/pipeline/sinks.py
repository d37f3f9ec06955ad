"""The panels *Sinks*. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import WINDOW, WORKER
from generate.dashboards.grafana import Line, Panel, Query

SINKS: Final = (
    Line(
        7,
        (
            Panel(
                title="Verdicts to sinks",
                description="Verdicts by receiver and outcome: *skipped* have no trace or span that the "
                "receiver knows, *refused* became dead letters.",
                unit="ops",
                no_data="No worker runs with --agents sink",
                queries=(
                    Query(
                        expr=f"sum by (sink, outcome) "
                        f"(rate(judgestream_sink_verdicts_total{{{WORKER}}}[{WINDOW}]))",
                        legend="{{sink}}: {{outcome}}",
                    ),
                ),
                minimum=0,
            ),
        ),
    ),
)
