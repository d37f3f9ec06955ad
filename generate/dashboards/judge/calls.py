"""The panels *Calls*: latency, outcomes, breakers and endpoints. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import ENDPOINT, WINDOW, rate
from generate.dashboards.grafana import TABLE_LEGEND, Line, Panel, Query
from generate.dashboards.judge.expressions import CALLS, NO_CALLS, NO_VERDICT

CALL_LINES: Final = (
    Line(
        8,
        (
            Panel(
                title="Latency",
                description="Wall-clock time of judge calls by endpoint and model, retries included.",
                unit="s",
                no_data=NO_CALLS,
                queries=tuple(
                    Query(
                        expr=f"histogram_quantile({quantile}, sum by (endpoint, model, le) "
                        f"(rate(judgestream_judge_call_seconds_bucket{{{ENDPOINT}}}[{WINDOW}])))",
                        legend=f"{{{{endpoint}}}} {{{{model}}}} p{round(quantile * 100)}",
                    )
                    for quantile in (0.5, 0.95, 0.99)
                ),
                alerts=("JudgestreamJudgeSlow",),
                minimum=0,
                options=TABLE_LEGEND,
            ),
            Panel(
                title="Latency, all calls",
                description="Distribution of call latencies. Two bands are two kinds of calls: long and "
                "short answers, a cache, a retry.",
                type="heatmap",
                unit="s",
                no_data=NO_CALLS,
                queries=(
                    Query(
                        expr=f"sum by (le) "
                        f"(increase(judgestream_judge_call_seconds_bucket{{{ENDPOINT}}}[{WINDOW}]))",
                        legend="{{le}}",
                        heatmap=True,
                    ),
                ),
            ),
            Panel(
                title="Calls by outcome",
                description="*scored* and *unscored* are verdicts. *unavailable*, *timeout*, *overloaded* "
                "and *rate_limited*: the endpoint did not answer, and the event is retried. All others are "
                "failed results: *invalid_verdict*, *content_refused*, *context_too_long*, "
                "*reply_cut*, *rejected_request*, *internal_error*; *no_answer*: the endpoint answers other "
                "events, but not this one.",
                unit="reqps",
                no_data=NO_CALLS,
                queries=(Query(expr=rate(CALLS, "outcome", ENDPOINT), legend="{{outcome}}"),),
                alerts=("JudgestreamJudgeFailing", "JudgestreamJudgeEndpointUnwell"),
                minimum=0,
                stack="normal",
            ),
        ),
    ),
    Line(
        7,
        (
            Panel(
                title="Calls without a verdict, by outcome",
                description="Share of each endpoint's calls that failed, by outcome. Lines at 5% and 20%.",
                unit="percentunit",
                no_data="Every call brought a verdict",
                queries=(
                    Query(
                        expr=f"sum by (endpoint, outcome) (rate({CALLS}{{{ENDPOINT}, "
                        f"{NO_VERDICT}}}[{WINDOW}])) / on (endpoint) group_left () (sum by (endpoint) "
                        f"(rate({CALLS}{{{ENDPOINT}}}[{WINDOW}])) > 0)",
                        legend="{{endpoint}} {{outcome}}",
                    ),
                ),
                alerts=("JudgestreamJudgeFailing", "JudgestreamJudgeEndpointUnwell"),
                thresholds=((0.05, "yellow"), (0.2, "red")),
                minimum=0,
            ),
            Panel(
                title="Breaker, by endpoint and worker",
                description="Open breakers over time. All workers at once: the endpoint or the network. One "
                "worker: that worker.",
                type="state-timeline",
                unit="short",
                no_data="No worker that judges is scraped",
                queries=(
                    Query(
                        expr=f"max by (endpoint, instance) (judgestream_judge_breaker_open{{{ENDPOINT}}})",
                        legend="{{endpoint}} {{instance}}",
                    ),
                ),
                alerts=("JudgestreamNoJudge", "JudgestreamJudgeBreakerOpen"),
                thresholds=((1, "red"),),
                mappings=(
                    {
                        "type": "value",
                        "options": {
                            "0": {"text": "answers", "color": "green", "index": 0},
                            "1": {"text": "down", "color": "red", "index": 1},
                        },
                    },
                ),
            ),
            Panel(
                title="Verdicts, by endpoint",
                description="Share of the verdicts of each endpoint. The usual judge gives nearly all; a "
                "spare one that takes over shows here. Its scores are separate series and never "
                "compared with the usual judge's.",
                unit="percentunit",
                no_data="No verdicts in this time",
                queries=(
                    Query(
                        expr=f"sum by (endpoint) (rate({CALLS}{{{ENDPOINT}, "
                        f'outcome=~"scored|unscored"}}[{WINDOW}])) '
                        "/ ignoring (endpoint) group_left () "
                        f'(sum(rate({CALLS}{{{ENDPOINT}, outcome=~"scored|unscored"}}[{WINDOW}])) > 0)',
                        legend="{{endpoint}}",
                    ),
                ),
                alerts=("JudgestreamFallbackJudge", "JudgestreamJudgeModelChanged"),
                minimum=0,
                maximum=1,
                stack="normal",
            ),
            Panel(
                title="In flight",
                description="Calls in flight by endpoint, all workers together, limited by "
                "`judge.max_in_flight` per worker; and requests that wait in batches.",
                unit="short",
                no_data="No judge call was made since the workers started",
                queries=(
                    Query(
                        expr=f"sum by (endpoint) (judgestream_judge_in_flight{{{ENDPOINT}}})",
                        legend="{{endpoint}}",
                    ),
                    Query(
                        expr=f"sum by (endpoint) (judgestream_judge_batch_requests{{{ENDPOINT}}})",
                        legend="{{endpoint}}, in batches",
                    ),
                ),
                minimum=0,
            ),
        ),
    ),
)
