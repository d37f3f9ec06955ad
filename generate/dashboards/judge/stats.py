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
            description="Whether any worker's breaker for an endpoint is open. Meanwhile events wait in "
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
            description="Completed judge calls per second, with or without a verdict.",
            type="stat",
            unit="reqps",
            no_data=NO_CALLS,
            empty="no calls",
            queries=(Query(expr=f"sum(rate({CALLS}{{{ENDPOINT}}}[{WINDOW}]))", legend="calls"),),
            minimum=0,
        ),
        Panel(
            title="Calls without a verdict",
            description="Share of the calls without a verdict. Yellow from 5%, red from 20% (alert): judged "
            "answers may no longer represent all answers.",
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
            description="p95 latency of judge calls, retries included. Yellow from 10 s, red from 20 s "
            "(alert). Calls fail beyond `judge.timeout_seconds` (30 s by default).",
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
            title="Cost per hour",
            description="Current cost in USD per hour, if prices are known (`usd_per_million_tokens`). "
            "Compare with `judge.budget.usd_per_day` / 24 if you set one.",
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
            description="Corrections by code per verdict. 0: no errors found. A rise: the judge changed, or "
            "its prompt no longer fits the traffic. Scores are corrected in any case.",
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
