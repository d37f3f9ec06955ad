"""The panels *In: which events are judged*. Pure."""

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
                description="What became of the events read: *sampled* goes to a judge, *skipped* was left "
                "out on purpose, *undecodable* and *unroutable* became dead letters. The four together are "
                "all events read.",
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
                description="Why events were not judged. `not_sampled` is the sampling rate at work; other "
                "reasons of *skipped* are conditions that no metric's `when` meets.",
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
                description="Sampled events among those that only the sampling rate could leave out. It "
                "should be close to the rate in the settings; over few events it wanders. Lines: over 5 "
                "minutes, an hour, a day. All workers of a job together.",
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
                description="Those in the sample whose records are being gathered, and records that came "
                "after theirs was closed. Many late records: raise `ingest.otlp.grace_seconds`, or "
                "`ingest.conversations.idle_seconds`.",
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
                title="Traces and conversations closed, by why",
                description="*root*: a trace's root span came, and the grace after it is over. *idle*: "
                "nothing came for a while. *longest*: at the longest age. *room*: too many are open; raise "
                "`max_traces`, `max_open` or `max_bytes`.",
                unit="ops",
                no_data=_NO_JOINS,
                queries=(
                    Query(expr=rate("judgestream_joins_closed_total", "reason", WORKER), legend="{{reason}}"),
                ),
                minimum=0,
            ),
            Panel(
                title="Traces without recorded content",
                description="Models answered, but their words are not in the trace; `judgestream map` says "
                "how each instrumentation is told to record them.",
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
