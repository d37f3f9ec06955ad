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
            description="Weighted mean of the scores over the chosen window, by metric and evaluator: each "
            "answer counts for as many as it was sampled from. Red below 3, the floor of an alert; a scale "
            "of your own may put good elsewhere.",
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
            description="Points by which the mean of the last hour differs from what the same apps scored in "
            "the past week, by the same evaluator; below 0 is worse. The mix of apps is that of now, so that "
            "more traffic to a weak app is no drop. Yellow below -0.2, red below -0.3, the sizes of the "
            "alerts.",
            type="stat",
            unit="short",
            no_data=NO_BASELINE,
            empty="no baseline yet",
            queries=(
                Query(
                    expr=by_evaluator(f"-1 * {drop('points1h', ALL)}"), legend="{{metric}} · {{evaluator}}"
                ),
            ),
            alerts=(
                "JudgestreamDrop",
                "JudgestreamMixShift",
            ),
            thresholds=((-0.3, "yellow"), (-0.2, "green")),
            base_color="red",
            decimals=2,
        ),
        Panel(
            title="Effective answers, last $window",
            description="How many equally weighted answers would say as much: (sum of w)² / sum of w². Below "
            "3 there is no interval, below 30 no alert. Quiet is no data, never a bad score.",
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
            description="Share of the results that carry no score and are in no mean: *unscored* (nothing to "
            "judge) and *failed* (judging went wrong). Where it is large, the mean speaks for the rest only. "
            "Yellow from 10%, red from 30%.",
            type="stat",
            unit="percentunit",
            no_data="Every result carries a number, or there are none",
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
                description="All traffic, over the chosen window. The true mean lies between the dashed "
                "lines in 19 of 20 cases (Student's t on the effective sample size, with one imagined "
                "answer, so that ten equal scores prove nothing). Dotted: what the same apps scored in the "
                "past week. A new evaluator is a new line: compare within a line only. A gap is quiet, not "
                "bad.",
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
                description="The same for the apps and models chosen above, taken together. Recording rules "
                "know the interval of one label value, not of a choice; where few answers are chosen the "
                "mean says little.",
                unit="short",
                no_data="No answer of the chosen apps and models was scored in this time; a label must be "
                "named in telemetry.labels to be chosen",
                queries=(Query(expr=by_evaluator(MEAN), legend="{{metric}} · {{evaluator}}"),),
                decimals=2,
            ),
            Panel(
                title="Points below the past week",
                description="How far the last hour, and the last six hours, lie below the same apps' past "
                "week. Above 0 is worse. Dashed at 0.2 and 0.3, the sizes of the alerts over six hours and "
                "one; they also ask that it is no chance, beside this.",
                unit="short",
                no_data=NO_BASELINE,
                queries=tuple(
                    Query(
                        expr=by_evaluator(drop(f"points{window}", ALL)),
                        legend=f"{{{{metric}}}} · {{{{evaluator}}}} {window}",
                    )
                    for window in ("1h", "6h")
                ),
                alerts=(
                    "JudgestreamDrop",
                    "JudgestreamMixShift",
                ),
                thresholds=((0.2, "yellow"), (0.3, "red")),
                decimals=2,
            ),
            Panel(
                title="How sure that is, in standard errors",
                description="The points beside, divided by their standard error with 0.05 points of everyday "
                "wander. Between -2 and 2 is chance. Dashed at 4: from there on a drop that is large enough "
                "becomes an alert.",
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
