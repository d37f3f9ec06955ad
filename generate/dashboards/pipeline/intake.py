"""The panels *Intake*. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import WINDOW, WORKER, rate
from generate.dashboards.grafana import Line, Panel, Query
from generate.dashboards.pipeline.absence import NO_EVENTS

_NO_JOINS: Final = "Nothing is joined (no traces, and no metric with unit: conversation)"
_NO_TRACES: Final = "No traces are read (ingest.format is not otlp)"

INTAKE: Final = (
    Line(
        8,
        (
            Panel(
                title="Events by outcome",
                description="Events read, by outcome: *sampled* goes to a judge, *skipped* was not "
                "selected, *undecodable* and *unroutable* became dead letters.",
                unit="eps",
                no_data=NO_EVENTS,
                queries=(
                    Query(expr=rate("judgestream_events_total", "outcome", WORKER), legend="{{outcome}}"),
                ),
                alerts=("JudgestreamEventsStopped",),
                minimum=0,
                stack="normal",
            ),
            Panel(
                title="Skipped and refused, by reason",
                description="Reasons why events were not judged. `not_sampled` is the sampling rate; other "
                "reasons of *skipped* are conditions (`when`) that no metric meets.",
                unit="eps",
                no_data="None in this time",
                queries=(
                    Query(
                        expr=f"sum by (outcome, reason) "
                        f'(rate(judgestream_events_total{{{WORKER}, outcome!="sampled"}}[{WINDOW}]))',
                        legend="{{outcome}}: {{reason}}",
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Sampled, of those eligible",
                description="Share of eligible events that was sampled. It should be close to the rate in "
                "the settings; with few events it varies. Lines: over 5 minutes, an hour, a day. All "
                "workers of a job together.",
                unit="percentunit",
                no_data="No eligible events in this time, or the recording rules are not loaded",
                queries=tuple(
                    Query(
                        expr=f'job:judgestream_events_sampled:ratio{window}{{job=~"$job"}}',
                        legend=f"{{{{job}}}} {window}",
                    )
                    for window in ("5m", "1h", "1d")
                ),
                alerts=("JudgestreamSamplingShifted",),
                minimum=0,
            ),
        ),
    ),
    Line(
        7,
        (
            Panel(
                title="Traces and conversations being joined",
                description="Sampled traces and conversations that are being joined, and records that "
                "arrived after the close. Many late records: raise `ingest.idle_seconds`.",
                unit="short",
                no_data=_NO_JOINS,
                queries=(
                    Query(
                        expr=f"sum by (unit) (judgestream_joins_open{{{WORKER}}})", legend="{{unit}}s open"
                    ),
                    Query(
                        expr=f"sum by (unit) (judgestream_joins_late_records{{{WORKER}}})",
                        legend="late records of {{unit}}s, since the start",
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Traces and conversations closed, by reason",
                description="Traces and conversations closed, by reason. *root*: the grace time after the "
                "root span is over. *idle*: no record for a while. *longest*: at the maximum age. "
                "*room*: too many are open; raise "
                "`ingest.max_open_bytes`.",
                unit="ops",
                no_data=_NO_JOINS,
                queries=(
                    Query(expr=rate("judgestream_joins_closed_total", "reason", WORKER), legend="{{reason}}"),
                ),
                minimum=0,
            ),
            Panel(
                title="Traces without recorded content",
                description="Traces with model calls but without recorded content; `judgestream map` says "
                "how to enable recording for each instrumentation.",
                unit="ops",
                no_data=_NO_TRACES,
                queries=(
                    Query(
                        expr=rate("judgestream_traces_without_content_total", "instrumentation", WORKER),
                        legend="{{instrumentation}}",
                    ),
                ),
                minimum=0,
            ),
        ),
    ),
)
