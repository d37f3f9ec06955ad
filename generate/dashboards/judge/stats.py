"""The panels *Now*: one number each. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import ENDPOINT, WINDOW
from generate.dashboards.grafana import Line, Panel, Query
from generate.dashboards.judge.expressions import CALLS, NO_CALLS, NO_PRICE, NO_VERDICT, corrections_of

_FAILING: Final = (
    f"(sum(rate({CALLS}{{{ENDPOINT}, {NO_VERDICT}}}[{WINDOW}])) or 0 * "
    f"sum(rate({CALLS}{{{ENDPOINT}}}[{WINDOW}]))) / (sum(rate({CALLS}{{{ENDPOINT}}}[{WINDOW}])) > 0)"
)

STATS: Final = Line(
    4,
    (
        Panel(
            title="Breaker",
            description="Whether any worker's breaker for an endpoint is open. While it is, events wait in "
            "Kafka: nothing is lost, and nothing is judged.",
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
            no_data=NO_CALLS,
            empty="no calls",
            queries=(Query(expr=f"sum(rate({CALLS}{{{ENDPOINT}}}[{WINDOW}]))", legend="calls"),),
            minimum=0,
        ),
        Panel(
            title="Calls without a verdict",
            description="Share of the calls that brought neither a score nor a reason why there is none. "
            "Yellow from 5%, red from 20%, where an alert says so: what is judged may then no longer stand "
            "for all answers.",
            type="stat",
            unit="percentunit",
            no_data=NO_CALLS,
            empty="no calls",
            queries=(Query(expr=_FAILING, legend="failing"),),
            alerts=("JudgestreamJudgeFailing",),
            thresholds=((0.05, "yellow"), (0.2, "red")),
            minimum=0,
            maximum=1,
        ),
        Panel(
            title="Latency, 95th percentile",
            description="19 of 20 calls end within this time, tries included. Yellow from 10 s, red from 20 "
            "s, where an alert says so. The default of `judge.timeout_seconds` is 30 s: beyond it calls "
            "fail.",
            type="stat",
            unit="s",
            no_data=NO_CALLS,
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
            description="US dollars an hour at the pace of now, where prices are known "
            "(`usd_per_million_tokens`). Compare with `judge.budget_usd_per_day` / 24 if you set one.",
            type="stat",
            unit="currencyUSD",
            no_data=NO_PRICE,
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
            description="What the judge claimed and code found otherwise, for each verdict. 0 is a careful "
            "judge; a value that rises means that the judge changed or its prompt no longer fits the "
            "traffic. The scores are recomputed either way.",
            type="stat",
            unit="short",
            no_data="No correction so far",
            empty="none so far",
            queries=(Query(expr=corrections_of("metric"), legend="{{metric}}"),),
            alerts=("JudgestreamCorrectionsRising",),
            decimals=2,
            minimum=0,
        ),
    ),
)
