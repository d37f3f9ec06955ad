"""The dashboard *Judge*: can its numbers be had, at what price, and can they be believed? Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards import common
from generate.dashboards.common import ENDPOINT, METRIC, WINDOW, WORKER, rate
from generate.dashboards.grafana import TABLE_LEGEND, Dashboard, Line, Panel, Query, Section

_CALLS: Final = "judgestream_judge_call_seconds_count"
_NO_CALLS: Final = "No judge call ended in this time"
_NO_PRICE: Final = (
    "No cost is known: usd_per_million_tokens is not set for the endpoint, or nothing was judged"
)
_NO_VERDICT: Final = 'outcome!~"scored|unscored"'

_FAILING: Final = (
    f"(sum(rate({_CALLS}{{{ENDPOINT}, {_NO_VERDICT}}}[{WINDOW}])) or 0 * sum(rate({_CALLS}{{{ENDPOINT}}}[{WINDOW}]))) "
    f"/ (sum(rate({_CALLS}{{{ENDPOINT}}}[{WINDOW}])) > 0)"
)


def _corrections_of(by: str) -> str:
    scored = f'sum by ({by}) (rate(judgestream_results_total{{{METRIC}, status!="failed"}}[{WINDOW}])) > 0'
    corrections = f"sum by ({by}) (rate(judgestream_verdict_corrections_total{{{METRIC}}}[{WINDOW}]))"
    return f"{corrections} / ({scored})"


def _suspicions() -> str:
    verdicts = (
        f'sum by (metric) (rate(judgestream_results_total{{{METRIC}, status!="failed"}}[{WINDOW}])) > 0'
    )
    suspicions = rate("judgestream_verdict_suspicions_total", "metric, kind", METRIC)
    return f"{suspicions} / on (metric) group_left () ({verdicts})"


_STATS: Final = Line(
    4,
    (
        Panel(
            title="Breaker",
            description="Whether an endpoint is taken for down by any worker. While it is, events wait in Kafka: nothing is "
            "lost, and nothing is judged.",
            type="stat",
            unit="short",
            no_data="No worker that judges is scraped",
            empty="no judge",
            queries=(
                Query(
                    expr=f"max by (endpoint) (judgestream_judge_breaker_open{{{ENDPOINT}}})",
                    legend="{{endpoint}}",
                ),
            ),
            alerts=("JudgestreamJudgeBreakerOpen",),
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
            options={"graphMode": "none"},
        ),
        Panel(
            title="Calls",
            description="Judge calls a second that ended, with a verdict or without one.",
            type="stat",
            unit="reqps",
            no_data=_NO_CALLS,
            empty="no calls",
            queries=(Query(expr=f"sum(rate({_CALLS}{{{ENDPOINT}}}[{WINDOW}]))", legend="calls"),),
            minimum=0,
        ),
        Panel(
            title="Calls without a verdict",
            description="Share of the calls that brought neither a score nor a reason why there is none. Yellow from 5%, "
            "red from 20%, where an alert says so: what is judged may then no longer stand for all answers.",
            type="stat",
            unit="percentunit",
            no_data=_NO_CALLS,
            empty="no calls",
            queries=(Query(expr=_FAILING, legend="failing"),),
            alerts=("JudgestreamJudgeFailing",),
            thresholds=((0.05, "yellow"), (0.2, "red")),
            minimum=0,
            maximum=1,
        ),
        Panel(
            title="Latency, 95th percentile",
            description="19 of 20 calls end within this time, tries included. Yellow from 10 s, red from 20 s, where "
            "an alert says so. The default of `judge.timeout_seconds` is 30 s: beyond it calls fail.",
            type="stat",
            unit="s",
            no_data=_NO_CALLS,
            empty="no calls",
            queries=(
                Query(
                    expr="histogram_quantile(0.95, sum by (le) "
                    f"(rate(judgestream_judge_call_seconds_bucket{{{ENDPOINT}}}[{WINDOW}])))",
                    legend="p95",
                ),
            ),
            alerts=("JudgestreamJudgeSlow",),
            thresholds=((10, "yellow"), (20, "red")),
            minimum=0,
        ),
        Panel(
            title="Cost an hour",
            description="US dollars an hour at the pace of now, where prices are known (`usd_per_million_tokens`). Compare "
            "with `judge.budget_usd_per_day` / 24 if you set one.",
            type="stat",
            unit="currencyUSD",
            no_data=_NO_PRICE,
            empty="not known",
            queries=(
                Query(
                    expr=f"sum(rate(judgestream_judge_cost_usd_total{{{ENDPOINT}}}[{WINDOW}])) * 3600",
                    legend="USD/h",
                ),
            ),
            decimals=2,
            minimum=0,
        ),
        Panel(
            title="Corrections for each verdict",
            description="What the judge claimed and code found otherwise, for each verdict. 0 is a careful judge; a value "
            "that rises means that the judge changed or its prompt no longer fits the traffic. The scores are recomputed "
            "either way.",
            type="stat",
            unit="short",
            no_data="No correction so far",
            empty="none so far",
            queries=(Query(expr=_corrections_of("metric"), legend="{{metric}}"),),
            alerts=("JudgestreamCorrectionsRising",),
            decimals=2,
            minimum=0,
        ),
    ),
)

_CALL_LINES: Final = (
    Line(
        8,
        (
            Panel(
                title="Latency",
                description="Wall-clock time of judge calls by endpoint and model asked, tries included.",
                unit="s",
                no_data=_NO_CALLS,
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
                description="How many calls took how long. Two bands are two kinds of calls: long and short answers, a cache, "
                "a second try.",
                type="heatmap",
                unit="s",
                no_data=_NO_CALLS,
                queries=(
                    Query(
                        expr=f"sum by (le) (increase(judgestream_judge_call_seconds_bucket{{{ENDPOINT}}}[{WINDOW}]))",
                        legend="{{le}}",
                        heatmap=True,
                    ),
                ),
            ),
            Panel(
                title="Calls by outcome",
                description="*scored* and *unscored* are verdicts. *unavailable*, *timeout*, *overloaded* and *rate_limited*: the "
                "endpoint gave no answer, and the event is tried again. All others ended as a failed result: *invalid_verdict*, *content_refused*, "
                "*context_too_long*, *reply_cut*, *rejected_request*, *internal_error*; *no_answer*: the endpoint answers others, never this event.",
                unit="reqps",
                no_data=_NO_CALLS,
                queries=(Query(expr=rate(_CALLS, "outcome", ENDPOINT), legend="{{outcome}}"),),
                alerts=("JudgestreamJudgeFailing",),
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
                description="Share of each endpoint's calls that failed, by how. Lines at 5% and 20%.",
                unit="percentunit",
                no_data="Every call brought a verdict",
                queries=(
                    Query(
                        expr=f"sum by (endpoint, outcome) (rate({_CALLS}{{{ENDPOINT}, {_NO_VERDICT}}}[{WINDOW}])) "
                        f"/ on (endpoint) group_left () (sum by (endpoint) (rate({_CALLS}{{{ENDPOINT}}}[{WINDOW}])) > 0)",
                        legend="{{endpoint}} {{outcome}}",
                    ),
                ),
                alerts=("JudgestreamJudgeFailing",),
                thresholds=((0.05, "yellow"), (0.2, "red")),
                minimum=0,
            ),
            Panel(
                title="Breaker, by endpoint and worker",
                description="When which worker took which endpoint for down. All at the same time: the endpoint, or the way to "
                "it. One alone: that worker.",
                type="state-timeline",
                unit="short",
                no_data="No worker that judges is scraped",
                queries=(
                    Query(
                        expr=f"max by (endpoint, instance) (judgestream_judge_breaker_open{{{ENDPOINT}}})",
                        legend="{{endpoint}} {{instance}}",
                    ),
                ),
                alerts=("JudgestreamJudgeBreakerOpen",),
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
                description="Share of the verdicts that each endpoint gave. The usual judge gives nearly all; a spare one that "
                "takes over is seen here. Its scores are other series and never compared with those of the usual one.",
                unit="percentunit",
                no_data="No verdict came in this time",
                queries=(
                    Query(
                        expr=f'sum by (endpoint) (rate({_CALLS}{{{ENDPOINT}, outcome=~"scored|unscored"}}[{WINDOW}])) '
                        "/ ignoring (endpoint) group_left () "
                        f'(sum(rate({_CALLS}{{{ENDPOINT}, outcome=~"scored|unscored"}}[{WINDOW}])) > 0)',
                        legend="{{endpoint}}",
                    ),
                ),
                alerts=("JudgestreamFallbackJudge",),
                minimum=0,
                maximum=1,
                stack="normal",
            ),
            Panel(
                title="In flight",
                description="Calls under way by endpoint, all workers together. Bounded by `judge.max_in_flight` a worker.",
                unit="short",
                no_data="No judge call was made since the workers started",
                queries=(
                    Query(
                        expr=f"sum by (endpoint) (judgestream_judge_in_flight{{{ENDPOINT}}})",
                        legend="{{endpoint}}",
                    ),
                ),
                minimum=0,
            ),
        ),
    ),
)

_PRICE: Final = (
    Line(
        8,
        (
            Panel(
                title="Tokens",
                description="Tokens a second as the endpoint counts them. *cached* is the part of *input* that the provider "
                "had in its cache: instructions come first in each prompt, so that it can.",
                unit="cps",
                no_data="No tokens were counted: nothing was judged, or the endpoint does not report usage",
                queries=(
                    Query(
                        expr=rate("judgestream_judge_tokens_total", "endpoint, model, kind", ENDPOINT),
                        legend="{{endpoint}} {{model}} {{kind}}",
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Tokens for each call",
                description="Input and output tokens for each call. Input that grows: longer answers or pages, or a longer "
                "prompt. It sets the price.",
                unit="short",
                no_data="No tokens were counted: nothing was judged, or the endpoint does not report usage",
                queries=(
                    Query(
                        expr=f"sum by (endpoint, kind) (rate(judgestream_judge_tokens_total{{{ENDPOINT}}}[{WINDOW}])) "
                        f"/ on (endpoint) group_left () (sum by (endpoint) (rate({_CALLS}{{{ENDPOINT}}}[{WINDOW}])) > 0)",
                        legend="{{endpoint}} {{kind}}",
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Cost an hour, by model",
                description="US dollars an hour over 5 minutes, an hour and a day. All workers of a job together.",
                unit="currencyUSD",
                no_data=_NO_PRICE,
                queries=tuple(
                    Query(
                        expr="sum by (endpoint, model) (job_endpoint_model:judgestream_judge_cost_usd:hourly"
                        f'{window}{{job=~"$job", endpoint=~"$endpoint"}})',
                        legend=f"{{{{endpoint}}}} {{{{model}}}} {window}",
                    )
                    for window in ("5m", "1h", "1d")
                ),
                decimals=2,
                minimum=0,
            ),
            Panel(
                title="Cost of 1,000 results",
                description="US dollars for 1,000 results of any status, all metrics and endpoints together.",
                unit="currencyUSD",
                no_data=_NO_PRICE,
                queries=(
                    Query(
                        expr=f"1000 * sum(rate(judgestream_judge_cost_usd_total{{{ENDPOINT}}}[{WINDOW}])) "
                        f"/ (sum(rate(judgestream_results_total{{{METRIC}}}[{WINDOW}])) > 0)",
                        legend="USD",
                    ),
                ),
                decimals=2,
                minimum=0,
            ),
        ),
    ),
    Line(
        6,
        (
            Panel(
                title="Budget spent",
                description="Share of the budget of the hour and of the day that is spent, for the worker that has spent most. "
                "At 100% its tasks wait in Kafka for the next hour or day; with `lower_rate` fewer events are sampled "
                "from 80% on.",
                unit="percentunit",
                no_data="No budget is set (judge.budget)",
                queries=(
                    Query(
                        expr=f"max by (period) (judgestream_judge_budget_spent_ratio{{{WORKER}}})",
                        legend="{{period}}",
                    ),
                ),
                thresholds=((0.8, "yellow"), (1, "red")),
                minimum=0,
                alerts=("JudgestreamBudgetNearlySpent",),
            ),
        ),
    ),
)

_BELIEF: Final = (
    Line(
        8,
        (
            Panel(
                title="Corrections by kind",
                description="What the judge claimed and code found otherwise, a second: spans that do not occur, pages that "
                "do not exist, scores above what their claims allow. Each is named in its result.",
                unit="cps",
                no_data="No correction so far",
                queries=(
                    Query(
                        expr=rate("judgestream_verdict_corrections_total", "metric, kind", METRIC),
                        legend="{{metric}} {{kind}}",
                    ),
                ),
                alerts=("JudgestreamCorrectionsRising",),
                minimum=0,
                options=TABLE_LEGEND,
            ),
            Panel(
                title="Corrections for each verdict",
                description="The same, for each verdict of the metric: independent of how much is judged. A step without a "
                "change of evaluator points to the model behind the same name, or to other traffic.",
                unit="short",
                no_data="No correction so far",
                queries=(Query(expr=_corrections_of("metric"), legend="{{metric}}"),),
                alerts=("JudgestreamCorrectionsRising",),
                decimals=2,
                minimum=0,
            ),
            Panel(
                title="Suspicions for each verdict",
                description="What code finds odd and cannot show to be wrong, for each verdict of the metric; no score was "
                "lowered. `no_citation` near 1: the answers cite in a form that is not understood.",
                unit="percentunit",
                no_data="No suspicion so far",
                queries=(Query(expr=_suspicions(), legend="{{metric}} {{kind}}"),),
                minimum=0,
                options=TABLE_LEGEND,
            ),
            Panel(
                title="Evaluators",
                description="Who judges: prompt, response schema, scoring rules, model and its parameters make a fingerprint. "
                "Numbers of two fingerprints are never added up. Two for one metric: a rollout, or workers with "
                "different settings.",
                type="table",
                unit="short",
                no_data="No result was written since the workers started",
                queries=(
                    Query(
                        expr=f"count by (job, metric, fingerprint, model) (judgestream_evaluator_info{{{METRIC}}})",
                        instant=True,
                        table=True,
                    ),
                ),
                transformations=(
                    {
                        "id": "organize",
                        "options": {
                            "excludeByName": {"Time": True},
                            "indexByName": {"metric": 0, "model": 1, "fingerprint": 2, "Value": 3, "job": 4},
                            "renameByName": {"Value": "workers", "model": "judge model"},
                        },
                    },
                ),
            ),
        ),
    ),
)


def judge() -> Dashboard:
    """Build it."""
    return Dashboard(
        uid=common.JUDGE_UID,
        title=common.TITLES[common.JUDGE_UID],
        description="Can verdicts be had, at what price, and can they be believed?",
        variables=(
            common.datasource(),
            *common.workers(),
            common.metrics(),
            common.endpoints(),
            common.runbooks(),
        ),
        annotations=common.marks(),
        links=common.links(common.JUDGE_UID),
        sections=(
            Section("Now", (_STATS,)),
            Section("Calls", _CALL_LINES),
            Section("Tokens and cost", _PRICE),
            Section("Can it be believed?", _BELIEF),
        ),
        span="6h",
    )
