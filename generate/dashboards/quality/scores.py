"""The panels *What the mean is made of*: scores, spread, results by status. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards import common
from generate.dashboards.common import EVENTS
from generate.dashboards.grafana import Line, Panel, Query
from generate.dashboards.quality.expressions import ALL, NO_SCORES, by_evaluator, score

_SCORE_COLORS: Final = {
    "0": "dark-red",
    "1": "red",
    "2": "orange",
    "3": "yellow",
    "4": "light-green",
    "5": "dark-green",
}

MADE_OF: Final = (
    Line(
        9,
        (
            Panel(
                title="$metric: distribution of the scores",
                description="Share of each score among the results of the chosen apps and models, "
                "unweighted. It distinguishes a few terrible answers from many mediocre ones.",
                unit="short",
                no_data=NO_SCORES,
                queries=(
                    Query(
                        expr=by_evaluator(
                            "sum by (score, fingerprint) ("
                            f"increase(judgestream_scores_total{{{EVENTS}}}[{common.WINDOW}]) "
                            "* on (cluster, namespace, job, instance, metric) group_left (fingerprint) "
                            "instance_metric:judgestream_evaluator:info)"
                        ),
                        legend="{{score}} · {{evaluator}}",
                    ),
                ),
                minimum=0,
                stack="percent",
                custom={"fillOpacity": 70, "lineWidth": 0},
                overrides=tuple(
                    {
                        "matcher": {"id": "byRegexp", "options": f"/^{score} /"},
                        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
                    }
                    for score, color in _SCORE_COLORS.items()
                ),
                repeat="metric",
            ),
        ),
    ),
    Line(
        8,
        (
            Panel(
                title="Effective answers",
                description="Effective sample size of the chosen window over time. Four times as many "
                "answers halve the intervals. Dashed at 30.",
                unit="short",
                no_data=NO_SCORES,
                queries=(
                    Query(
                        expr=by_evaluator(score("effective_count", ALL)),
                        legend="{{metric}} · {{evaluator}}",
                    ),
                ),
                thresholds=((30, "green"),),
                base_color="red",
                minimum=0,
            ),
            Panel(
                title="Spread of the scores",
                description="Weighted standard deviation of single scores. Falling mean with growing "
                "spread: some answers got bad. With the same spread: all got slightly worse, or the "
                "judge became stricter.",
                unit="short",
                no_data=NO_SCORES,
                queries=(
                    Query(
                        expr=by_evaluator(score("standard_deviation", ALL)),
                        legend="{{metric}} · {{evaluator}}",
                    ),
                ),
                decimals=2,
                minimum=0,
            ),
            Panel(
                title="Results by status",
                description="Shares of scored, unscored and failed results over the chosen window. If the "
                "share of scored results shrinks, the mean describes other answers. Reasons are on the "
                "dashboard Pipeline.",
                unit="percentunit",
                no_data="No results in this time, or the recording rules are not loaded",
                queries=(
                    Query(
                        expr=f"slice:judgestream_results:share$window{{{ALL}}}",
                        legend="{{metric}} {{status}}",
                    ),
                ),
                minimum=0,
                maximum=1,
            ),
        ),
    ),
)
