"""The panels *Out: what became of them*. Pure."""

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
                description="*scored* carries a number; *unscored* had nothing to judge (no claims, missing "
                "input); *failed* could not be judged. Only scored results are in any mean.",
                unit="cps",
                no_data=_NO_RESULTS,
                queries=(
                    Query(
                        expr=rate("judgestream_results_total", "metric, status", METRIC),
                        legend="{{metric}} {{status}}",
                    ),
                ),
                alerts=("JudgestreamNoVerdicts",),
                minimum=0,
                stack="normal",
            ),
            Panel(
                title="Without a number, by reason",
                description="Why results carry no score. A rise of `no_claims`: the product refuses more, or "
                "stopped citing. `invalid_verdict`: the judge's replies do not hold.",
                unit="cps",
                no_data="Every result carries a number",
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
                description="By metric, over 5 minutes and an hour. 1 for a metric that judges every sampled "
                "event; lower by design where its `when` or `rate` leave some out. Below its usual height: "
                "the judge does not follow. Above: it works off a backlog.",
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
                description="Seconds from the event's own time to its result, by metric: half of the results "
                "come within p50, 19 of 20 within p95. It holds waiting in topics, in the producer and for "
                "the judge; a replay of old events shows here as their age. The highest bucket ends at one "
                "day.",
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
                description="Calls under way, by endpoint. At `judge.max_in_flight` times the workers the "
                "judge is the bottleneck: a growing lag is then solved there, by more in flight or more "
                "workers.",
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
                description="Dead letters written. *undecodable* is no event, *unroutable* fits no metric, "
                "*oversized* is over `ingest.max_event_bytes`, *invalid_task* and *unknown_metric* come from "
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
                description="*removed*: retention was faster than the workers. *skipped*: no form of the "
                "dead letter fits (`dead_letters.when_refused: skip`). All of this should be 0.",
                unit="short",
                no_data="Nothing of the kind so far",
                queries=(
                    Query(
                        expr=f"sum by (topic) (increase(judgestream_lost_records_total{{{WORKER}}}[1h]))",
                        legend="removed from {{topic}}",
                    ),
                    Query(
                        expr=f"sum by (reason) "
                        f"(increase(judgestream_dead_letters_skipped_total{{{WORKER}}}[1h]))",
                        legend="skipped, {{reason}}",
                    ),
                ),
                alerts=("JudgestreamRecordsLost", "JudgestreamRecordsSkipped"),
                minimum=0,
            ),
            Panel(
                title="Partitions that went on elsewhere in the hour before",
                description="The next offset was out of range, as the partition's leader confirmed. "
                "*retention*: what lay in between was removed. *shorter*: the log has become shorter, for "
                "the topic was created again or a replica that lagged became leader.",
                unit="short",
                no_data="Nothing of the kind so far",
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
            Panel(
                title="Tasks of metrics that were removed",
                description="They wait on their topics and nobody judges them: put the metric back, or set "
                "them aside with `judgestream topics drain --metric NAME`.",
                unit="short",
                no_data="No such tasks",
                queries=(
                    Query(
                        expr=f"max by (metric) (judgestream_removed_metric_tasks{{{WORKER}}})",
                        legend="{{metric}}",
                    ),
                ),
                alerts=("JudgestreamRemovedMetricTasks",),
                minimum=0,
            ),
        ),
    ),
)
