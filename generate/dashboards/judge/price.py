"""The panels *Tokens and cost*. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import ENDPOINT, METRIC, WINDOW, WORKER, rate
from generate.dashboards.grafana import Line, Panel, Query
from generate.dashboards.judge.expressions import CALLS, NO_PRICE

PRICE: Final = (
    Line(
        8,
        (
            Panel(
                title="Tokens",
                description="Tokens per second as counted by the endpoint. *cached* is the part of *input* "
                "from the provider's cache.",
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
                description="Input and output tokens for each call. Growing input: longer answers, pages or "
                "prompts. It determines the cost.",
                unit="short",
                no_data="No tokens were counted: nothing was judged, or the endpoint does not report usage",
                queries=(
                    Query(
                        expr=f"sum by (endpoint, kind) "
                        f"(rate(judgestream_judge_tokens_total{{{ENDPOINT}}}[{WINDOW}])) / on (endpoint) "
                        f"group_left () (sum by (endpoint) (rate({CALLS}{{{ENDPOINT}}}[{WINDOW}])) > 0)",
                        legend="{{endpoint}} {{kind}}",
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Cost per hour, by model",
                description="US dollars per hour over 5 minutes, an hour and a day. All workers of a job "
                "together.",
                unit="currencyUSD",
                no_data=NO_PRICE,
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
                description="USD for 1,000 results of any status; the counter also has the event labels.",
                unit="currencyUSD",
                no_data=NO_PRICE,
                queries=(
                    Query(
                        expr=f"1000 * sum by (metric) "
                        f"(rate(judgestream_result_cost_usd_total{{{METRIC}}}[{WINDOW}])) "
                        f"/ (sum by (metric) (rate(judgestream_results_total{{{METRIC}}}[{WINDOW}])) > 0)",
                        legend="{{metric}}",
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
                description="Spent share of the workers' common budget of the day, by limit; of a limit by "
                "label, that of the fullest value. At 100% tasks wait in Kafka for the next day; with "
                "`lower_rate` fewer events are sampled while it is ahead of the day.",
                unit="percentunit",
                no_data="No budget is set (judge.budget)",
                queries=(
                    Query(
                        expr=f"max by (cap) (judgestream_judge_budget_spent_ratio{{{WORKER}}})",
                        legend="{{cap}}",
                    ),
                ),
                thresholds=((0.8, "yellow"), (1, "red")),
                minimum=0,
                alerts=("JudgestreamBudgetNearlySpent",),
            ),
            Panel(
                title="Budget lasts for",
                description="Time until a limit of the budget is spent at the rate of the last half hour; "
                "nothing for a limit that lasts until the day ends.",
                unit="s",
                no_data="No budget is set (judge.budget), or it lasts for today",
                queries=(
                    Query(
                        expr=f"min by (cap) (judgestream_judge_budget_left_seconds{{{WORKER}}}) < +Inf",
                        legend="{{cap}}",
                    ),
                ),
                minimum=0,
            ),
            Panel(
                title="Sampling rates in force",
                description="The rates that `sampling.budget` gives the strata. Higher at once: a fall is "
                "suspected there.",
                unit="percentunit",
                no_data="sampling.budget is not set",
                queries=(
                    Query(
                        expr=f"max by (stratum) (judgestream_sampling_rate{{{WORKER}}})",
                        legend="{{stratum}}",
                    ),
                ),
                minimum=0,
            ),
        ),
    ),
)
