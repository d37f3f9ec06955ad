"""The dashboard *Pipeline*: is everything that should be judged judged, and how soon? Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards import common
from generate.dashboards.common import METRIC, WINDOW, WORKER, rate
from generate.dashboards.grafana import TABLE_LEGEND, Dashboard, Line, Panel, Query, Section

_EVENTS: Final = f"rate(judgestream_events_total{{{WORKER}}}[{WINDOW}])"
_NO_WORKER: Final = "No worker is scraped under this job"
_NO_EVENTS: Final = "No events were read in this time"
_NO_RESULTS: Final = "No results were written in this time"
_NONE: Final = "None in this time"

_STATS: Final = Line(
    4,
    (
        Panel(
            title="Workers",
            description="Workers that Prometheus reaches, of those it knows. Fewer than you run: look at the pods or "
            "processes first, everything else follows from it.",
            type="stat",
            unit="short",
            no_data=_NO_WORKER,
            empty="no worker",
            queries=(Query(expr=f"sum(up{{{WORKER}}})", legend="up"),),
            alerts=("JudgestreamWorkerDown", "JudgestreamNoWorker"),
            thresholds=((1, "green"),),
            base_color="red",
            minimum=0,
        ),
        Panel(
            title="Events read",
            description="Events a second that all workers took from the events topic, skipped ones included.",
            type="stat",
            unit="eps",
            no_data=_NO_WORKER,
            empty="no worker",
            queries=(Query(expr=f"sum({_EVENTS})", legend="read"),),
            minimum=0,
        ),
        Panel(
            title="Sampled",
            description="Share of the events read that was sent to a judge. It follows from `sampling` in the settings; "
            "what filters skip counts as read here.",
            type="stat",
            unit="percentunit",
            no_data=_NO_EVENTS,
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
            description="Results a second, of every status, all metrics together.",
            type="stat",
            unit="cps",
            no_data=_NO_WORKER,
            empty="no worker",
            queries=(
                Query(expr=f"sum(rate(judgestream_results_total{{{METRIC}}}[{WINDOW}]))", legend="results"),
            ),
            minimum=0,
        ),
        Panel(
            title="Oldest unfinished",
            description="Age of the oldest record that a worker has in hand: by so much the numbers are late. Yellow from "
            "10 minutes, red from 30: from there on an alert says so.",
            type="stat",
            unit="s",
            no_data=_NO_WORKER,
            empty="no worker",
            queries=(Query(expr=f"max(judgestream_oldest_unfinished_seconds{{{WORKER}}})", legend="age"),),
            thresholds=((600, "yellow"), (1800, "red")),
            minimum=0,
        ),
        Panel(
            title="Dead letters, last hour",
            description="Records that were set aside in the hour before the end of the time range. They are on the topic "
            "qa.dead-letters with the reason and the original bytes. Yellow from the first one.",
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

_NO_TRACES: Final = "No traces are read (ingest.format is not otlp)"
_INTAKE: Final = (
    Line(
        8,
        (
            Panel(
                title="Events by outcome",
                description="What became of the events read: *sampled* goes to a judge, *skipped* was left out on purpose, "
                "*undecodable* and *unroutable* became dead letters. The four together are all events read.",
                unit="eps",
                no_data=_NO_EVENTS,
                queries=(
                    Query(expr=rate("judgestream_events_total", "outcome", WORKER), legend="{{outcome}}"),
                ),
                alerts=("JudgestreamEventsStopped",),
                minimum=0,
                stack="normal",
            ),
            Panel(
                title="Skipped and refused, by reason",
                description="Why events were not judged. `not_sampled` is the sampling rate at work; other reasons of "
                "*skipped* are conditions that no metric's `when` meets.",
                unit="eps",
                no_data=_NONE,
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
                description="Sampled events among those that only the sampling rate could leave out. It should be close to "
                "the rate in the settings; over few events it wanders. Lines: over 5 minutes, an hour, a day. All workers "
                "of a job together.",
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
                title="Traces being joined",
                description="With `ingest.format: otlp`: traces in the sample whose spans are being gathered, and records that "
                "came after their trace was closed. Many late records: raise `ingest.otlp.grace_seconds`.",
                unit="short",
                no_data=_NO_TRACES,
                queries=(
                    Query(expr=f"sum(judgestream_traces_open{{{WORKER}}})", legend="open"),
                    Query(
                        expr=f"sum(judgestream_traces_late_records{{{WORKER}}})",
                        legend="late records, since the start",
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Traces closed, by why",
                description="*root*: the root span came, and the grace after it is over. *idle*: nothing came for a while. "
                "*longest*: at the longest age. *room*: too many open traces; raise `ingest.otlp.max_traces` or `max_bytes`.",
                unit="ops",
                no_data=_NO_TRACES,
                queries=(
                    Query(
                        expr=rate("judgestream_traces_closed_total", "reason", WORKER), legend="{{reason}}"
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Traces without recorded content",
                description="Models answered, but their words are not in the trace; `judgestream map` says how each "
                "instrumentation is told to record them.",
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

_SINKS: Final = (
    Line(
        7,
        (
            Panel(
                title="Verdicts to sinks",
                description="What became of verdicts at each receiver of `sinks`: *skipped* are about no trace or span that the "
                "receiver knows, *refused* became dead letters.",
                unit="ops",
                no_data="No worker runs with --agents sink",
                queries=(
                    Query(
                        expr=f"sum by (sink, outcome) (rate(judgestream_sink_verdicts_total{{{WORKER}}}[{WINDOW}]))",
                        legend="{{sink}}: {{outcome}}",
                    ),
                ),
                minimum=0,
            ),
        ),
    ),
)

_BACKLOG: Final = (
    Line(
        8,
        (
            Panel(
                title="Lag, by topic",
                description="Records that are not finished, up to the end of the partitions. Lag on `judge.tasks.*` is what "
                "waits for a judge; lag on the events topic is what was not even looked at. It should come back down "
                "after each peak. While a partition moves, the larger of two reports counts.",
                unit="short",
                no_data=_NO_WORKER,
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
                title="Age of the oldest record in hand, by topic",
                description="Seconds since the oldest unfinished record was produced; 0 where nothing is in hand. A straight "
                "rise is one record that does not end, or a judge that is down. Lines at 10 and 30 minutes.",
                unit="s",
                no_data=_NO_WORKER,
                queries=(
                    Query(
                        expr=f"max by (topic) (judgestream_oldest_unfinished_seconds{{{WORKER}}})",
                        legend="{{topic}}",
                    ),
                ),
                alerts=("JudgestreamResultsLate", "JudgestreamWorkerStuck"),
                thresholds=((600, "yellow"), (1800, "red")),
                minimum=0,
            ),
            Panel(
                title="Lag, by partition of the topics of tasks",
                description="One partition that stays behind while others are empty: one record that does not end, or a key "
                "with most of the traffic. The ten longest.",
                unit="short",
                no_data=_NO_WORKER,
                queries=(
                    Query(
                        expr="topk(10, max by (topic, partition) "
                        f'(judgestream_consumer_lag_records{{{WORKER}, topic=~".*tasks.*"}}))',
                        legend="{{topic}} {{partition}}",
                    ),
                ),
                minimum=0,
            ),
        ),
    ),
)

_RESULTS: Final = (
    Line(
        8,
        (
            Panel(
                title="Results by status",
                description="*scored* carries a number; *unscored* had nothing to judge (no claims, missing input); *failed* "
                "could not be judged. Only scored results are in any mean.",
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
                description="Why results carry no score. A rise of `no_claims`: the product refuses more, or stopped citing. "
                "`invalid_verdict`: the judge's replies do not hold.",
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
                description="By metric, over 5 minutes and an hour. 1 for a metric that judges every sampled event; lower "
                "by design where its `when` or `rate` leave some out. Below its usual height: the judge does not "
                "follow. Above: it works off a backlog.",
                unit="short",
                no_data="Nothing was sampled in this time, or the recording rules are not loaded",
                queries=tuple(
                    Query(
                        expr=f'job_metric:judgestream_results:per_sampled_event{window}{{job=~"$job", metric=~"$metric"}}',
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
                description="Seconds from the event's own time to its result, by metric: half of the results come "
                "within p50, 19 of 20 within p95. It holds waiting in topics, in the producer and for the judge; a replay "
                "of old events shows here as their age. The highest bucket ends at one day.",
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
                description="Calls under way, by endpoint. At `judge.max_in_flight` times the workers the judge is the "
                "bottleneck: a growing lag is then solved there, by more in flight or more workers.",
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
                description="Records set aside. *undecodable* is no event, *unroutable* fits no metric, *oversized* is over "
                "`ingest.max_event_bytes`, *invalid_task* and *unknown_metric* come from workers of different versions or "
                "a foreign producer on a task topic. The first of a kind is not seen by Prometheus.",
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
                description="*removed*: retention was faster than the workers. *skipped*: no form of the dead letter fits "
                "(`dead_letters.when_refused: skip`). All of this should be 0.",
                unit="short",
                no_data="Nothing of the kind so far",
                queries=(
                    Query(
                        expr=f"sum by (topic) (increase(judgestream_lost_records_total{{{WORKER}}}[1h]))",
                        legend="removed from {{topic}}",
                    ),
                    Query(
                        expr=f"sum by (reason) (increase(judgestream_dead_letters_skipped_total{{{WORKER}}}[1h]))",
                        legend="skipped, {{reason}}",
                    ),
                ),
                alerts=("JudgestreamRecordsLost", "JudgestreamRecordsSkipped"),
                minimum=0,
            ),
            Panel(
                title="Partitions that went on elsewhere in the hour before",
                description="The next offset was out of range, as the partition's leader confirmed. *retention*: what lay "
                "in between was removed. *shorter*: the log has become shorter, for the topic was made anew or a replica "
                "that lagged became leader.",
                unit="short",
                no_data="Nothing of the kind so far",
                queries=(
                    Query(
                        expr=f"sum by (topic, why) (increase(judgestream_offset_moves_total{{{WORKER}}}[1h]))",
                        legend="{{topic}}, {{why}}",
                    ),
                ),
                alerts=("JudgestreamLogShorter",),
                minimum=0,
            ),
            Panel(
                title="Tasks of metrics that were removed",
                description="They wait on their topics and nobody judges them: put the metric back, or set them aside with "
                "`judgestream topics drain --metric NAME`.",
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


def pipeline() -> Dashboard:
    """Build it."""
    return Dashboard(
        uid=common.PIPELINE_UID,
        title=common.TITLES[common.PIPELINE_UID],
        description="Is everything that should be judged judged, and how soon?",
        variables=(common.datasource(), *common.workers(), common.metrics(), common.runbooks()),
        annotations=common.marks(),
        links=common.links(common.PIPELINE_UID),
        sections=(
            Section("Now", (_STATS,)),
            Section("In: which events are judged", _INTAKE),
            Section("Backlog: what waits", _BACKLOG),
            Section("Out: what became of them", _RESULTS),
            Section("Sinks: verdicts elsewhere", _SINKS),
        ),
        span="6h",
    )
