"""The panels *Now* and *Did answers get worse?*: means against the past week. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.grafana import Line, Panel, Query
from generate.dashboards.quality.expressions import (
    ALL,
    ENDS,
    MEAN,
    NO_BASELINE,
    NO_SCORES,
    by_evaluator,
    drop,
    score,
)

STATS: Final = Line(
    5,
    (
        Panel(
            title="Mean, last $window",
            description="Weighted mean of the scores over the chosen window, by metric and evaluator, each "
            "answer weighted by 1 / sampling probability. Red below 3, the floor of an alert; your own "
            "scale may differ.",
            type="stat",
            unit="short",
            no_data=NO_SCORES,
            empty="no scores",
            queries=(Query(expr=by_evaluator(score("mean", ALL)), legend="{{metric}} · {{evaluator}}"),),
            alerts=("JudgestreamScoreBelowFloor",),
            thresholds=((3, "green"),),
            base_color="red",
            decimals=2,
        ),
        Panel(
            title="Against the past week",
            description="Difference of the last hour's mean from the same apps' past week, by the same "
            "evaluator; below 0 is worse. Weighted by the current mix of apps, so that more traffic to "
            "a weak app is not a drop. Yellow below -0.2, red below -0.3.",
            type="stat",
            unit="short",
            no_data=NO_BASELINE,
            empty="no baseline yet",
            queries=(
                Query(
                    expr=by_evaluator(f"-1 * {drop('points1h', ALL)}"), legend="{{metric}} · {{evaluator}}"
                ),
            ),
            alerts=("JudgestreamDrop",),
            thresholds=((-0.3, "yellow"), (-0.2, "green")),
            base_color="red",
            decimals=2,
        ),
        Panel(
            title="Effective answers, last $window",
            description="Effective sample size: (sum of w)² / sum of w². Below 3 there is no interval.",
            type="stat",
            unit="short",
            no_data=NO_SCORES,
            empty="no scores",
            queries=(
                Query(expr=by_evaluator(score("effective_count", ALL)), legend="{{metric}} · {{evaluator}}"),
            ),
            thresholds=((3, "yellow"), (30, "green")),
            base_color="red",
            decimals=0,
            minimum=0,
        ),
        Panel(
            title="Without a number, last $window",
            description="Share of the results without a score: *unscored* (nothing to judge) and *failed* "
            "(judging failed). If large, the mean describes only the rest. "
            "Yellow from 10%, red from 30%.",
            type="stat",
            unit="percentunit",
            no_data="Every result has a number, or there are none",
            empty="none",
            queries=(
                Query(
                    expr=f'slice:judgestream_results:share$window{{{ALL}, status!="scored"}}',
                    legend="{{metric}} {{status}}",
                ),
            ),
            thresholds=((0.1, "yellow"), (0.3, "red")),
            decimals=1,
            minimum=0,
            maximum=1,
        ),
    ),
)

MEANS: Final = (
    Line(
        10,
        (
            Panel(
                title="$metric: mean with its 95% interval",
                description="Mean of all traffic with its 95% interval (dashed), over the chosen window. "
                "Dotted: the same apps' past week. A new evaluator is a new line: compare within a line "
                "only. A gap means no answers.",
                unit="short",
                no_data=NO_SCORES,
                queries=(
                    *(
                        Query(expr=by_evaluator(score(name, ALL)), legend=f"{{{{evaluator}}}} {name}")
                        for name in ("mean", "low", "high")
                    ),
                    Query(
                        expr=by_evaluator(drop("baseline1h", ALL)),
                        legend="{{evaluator}} past week",
                    ),
                ),
                alerts=("JudgestreamScoreBelowFloor",),
                decimals=2,
                overrides=ENDS,
                repeat="metric",
            ),
        ),
    ),
    Line(
        9,
        (
            Panel(
                title="Chosen apps and models: mean",
                description="Mean of the chosen apps and models together. Recording rules have no interval "
                "for a selection; with few answers the mean is imprecise.",
                unit="short",
                no_data="No answer of the chosen apps and models was scored in this time; a label must be "
                "named in telemetry.labels to be chosen",
                queries=(Query(expr=by_evaluator(MEAN), legend="{{metric}} · {{evaluator}}"),),
                decimals=2,
            ),
            Panel(
                title="Points below the past week",
                description="How far the last hour, and the last six hours, are below the same apps' past "
                "week. Above 0 is worse. Dashed at 0.2 and 0.3.",
                unit="short",
                no_data=NO_BASELINE,
                queries=tuple(
                    Query(
                        expr=by_evaluator(drop(f"points{window}", ALL)),
                        legend=f"{{{{metric}}}} · {{{{evaluator}}}} {window}",
                    )
                    for window in ("1h", "6h")
                ),
                alerts=("JudgestreamDrop",),
                thresholds=((0.2, "yellow"), (0.3, "red")),
                decimals=2,
            ),
            Panel(
                title="Significance, in standard errors",
                description="Points below the past week, divided by their standard error with 0.05 points "
                "of normal variation. Between -2 and 2 is chance. Dashed at 4.",
                unit="short",
                no_data=NO_BASELINE,
                queries=tuple(
                    Query(
                        expr=by_evaluator(drop(f"z{window}", ALL)),
                        legend=f"{{{{metric}}}} · {{{{evaluator}}}} {window}",
                    )
                    for window in ("1h", "6h")
                ),
                thresholds=((4, "red"),),
                decimals=1,
            ),
        ),
    ),
)
