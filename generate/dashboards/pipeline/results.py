"""The panels *Results*. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import METRIC, WINDOW, WORKER, rate
from generate.dashboards.grafana import TABLE_LEGEND, Line, Panel, Query

_NO_RESULTS: Final = "No results were written in this time"

RESULTS: Final = (
    Line(
        8,
        (
            Panel(
                title="Results by status",
                description="Results by status: *scored* has a score; *unscored* had nothing to judge (no "
                "claims, missing input); *failed* could not be judged. Only scored results enter means.",
                unit="cps",
                no_data=_NO_RESULTS,
                queries=(
                    Query(
                        expr=rate("judgestream_results_total", "metric, status", METRIC),
                        legend="{{metric}} {{status}}",
                    ),
                ),
                alerts=("JudgestreamNoVerdicts", "JudgestreamNothingScored"),
                minimum=0,
                stack="normal",
            ),
            Panel(
                title="Without a number, by reason",
                description="Reasons for results without a score. A rise of `no_claims`: the product "
                "refuses more, or stopped citing. `invalid_verdict`: the judge's replies are invalid.",
                unit="cps",
                no_data="Every result has a number",
                queries=(
                    Query(
                        expr=f"sum by (metric, status, reason) "
                        f'(rate(judgestream_results_total{{{METRIC}, status!="scored"}}[{WINDOW}]))',
                        legend="{{metric}} {{status}}: {{reason}}",
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Results for each sampled event",
                description="Results per sampled event, by metric, over 5 minutes and an hour. 1 for a "
                "metric that judges every sampled event; lower if its `when` or `rate` exclude some. "
                "Below its usual level: the judge is too slow. Above: it works off a backlog.",
                unit="short",
                no_data="Nothing was sampled in this time, or the recording rules are not loaded",
                queries=tuple(
                    Query(
                        expr=f'job_metric:judgestream_results:per_sampled_event{window}{{job=~"$job", '
                        f'metric=~"$metric"}}',
                        legend=f"{{{{metric}}}} {window}",
                    )
                    for window in ("5m", "1h")
                ),
                decimals=2,
                minimum=0,
            ),
        ),
    ),
    Line(
        8,
        (
            Panel(
                title="From event to result",
                description="Seconds from the event's time to its result, by metric (p50, p95). Includes "
                "waiting in topics, in the producer and for the judge; replayed events show their age. "
                "The highest bucket ends at one day.",
                unit="s",
                no_data=_NO_RESULTS,
                queries=tuple(
                    Query(
                        expr=f"histogram_quantile({quantile}, sum by (metric, le) "
                        f"(rate(judgestream_event_to_result_seconds_bucket{{{METRIC}}}[{WINDOW}])))",
                        legend=f"{{{{metric}}}} p{round(quantile * 100)}",
                    )
                    for quantile in (0.5, 0.95, 0.99)
                ),
                alerts=("JudgestreamResultsLate",),
                minimum=0,
                options=TABLE_LEGEND,
            ),
            Panel(
                title="Judge calls in flight",
                description="Judge calls in flight, by endpoint. At `judge.max_in_flight` times the workers "
                "the judge is the bottleneck: allow more in flight, or add workers.",
                unit="short",
                no_data="No judge call was made since the workers started",
                queries=(
                    Query(
                        expr=f"sum by (endpoint) (judgestream_judge_in_flight{{{WORKER}}})",
                        legend="{{endpoint}}",
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Dead letters in the hour before, by reason",
                description="Dead letters by reason: *undecodable* is not an event, *unroutable* matches no "
                "metric, *oversized* is over `ingest.max_event_bytes`, *invalid_task* and "
                "*unknown_metric* come from "
                "workers of different versions or a foreign producer on a task topic. The first of a kind is "
                "not seen by Prometheus.",
                unit="short",
                no_data="No dead letters so far",
                queries=(
                    Query(
                        expr=f"sum by (reason) (increase(judgestream_dead_letters_total{{{WORKER}}}[1h]))",
                        legend="{{reason}}",
                    ),
                ),
                alerts=("JudgestreamDeadLetters",),
                minimum=0,
                stack="normal",
            ),
        ),
    ),
    Line(
        8,
        (
            Panel(
                title="Records without an outcome in the hour before",
                description="Records that retention removed before they were read; should be 0.",
                unit="short",
                no_data="None so far",
                queries=(
                    Query(
                        expr=f"sum by (topic) (increase(judgestream_lost_records_total{{{WORKER}}}[1h]))",
                        legend="removed from {{topic}}",
                    ),
                ),
                alerts=("JudgestreamRecordsLost",),
                minimum=0,
            ),
            Panel(
                title="Partitions resumed at another offset in the hour before",
                description="Partitions whose next offset was out of range, as their leader confirmed. "
                "*retention*: records in between were removed. *shorter*: the log became shorter (a "
                "recreated topic or an unclean leader election).",
                unit="short",
                no_data="None so far",
                queries=(
                    Query(
                        expr=f"sum by (topic, why) "
                        f"(increase(judgestream_offset_moves_total{{{WORKER}}}[1h]))",
                        legend="{{topic}}, {{why}}",
                    ),
                ),
                alerts=("JudgestreamLogShorter",),
                minimum=0,
            ),
        ),
    ),
)
