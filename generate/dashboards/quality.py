"""The dashboard *Quality*: did answers get worse, where, and how sure is that? Pure.

It stands on the recording rules, which keep the scores of each evaluator apart.
"""

from __future__ import annotations

from typing import Final

from generate.dashboards import common
from generate.dashboards.common import ALERTS, EVENTS
from generate.dashboards.grafana import Dashboard, Json, Line, Panel, Query, Section

_SLICES: Final = 'job=~"$job", metric=~"$metric"'
_ALL: Final = f'{_SLICES}, slice="all"'
_NO_SCORES: Final = "No answer was scored in this time, or the recording rules are not loaded"
_NO_BASELINE: Final = (
    "No baseline yet: it takes 50 scored answers of one evaluator within a week, older than six hours"
)
_FEW: Final = 10
"""Slices with fewer effective answers are left out: their means say next to nothing."""
_NORMAL_FROM: Final = 30
"""From this effective sample size on the normal distribution stands in for Student's."""


def _by_evaluator(expr: str) -> str:
    """Name the evaluator by the first eight characters of its fingerprint, for legends."""
    return f'label_replace({expr}, "evaluator", "$1", "fingerprint", "(.{{0,8}}).*")'


def _score(name: str, selector: str, window: str = "$window") -> str:
    return f"slice:judgestream_score:{name}{window}{{{selector}}}"


def _drop(name: str, selector: str) -> str:
    return f"slice:judgestream_score_drop:{name}{{{selector}}}"


def _enough(expr: str, selector: str) -> str:
    return f"{expr} and {_score('effective_count', selector)} >= {_FEW}"


def _sum(name: str) -> str:
    """One of the six sums over the selected apps and models."""
    rule = f'labels:judgestream_score_sums:increase$window{{{EVENTS}, sum="{name}"}}'
    return f"sum by (metric, fingerprint) ({rule})"


_MEAN: Final = f"({_sum('weighted')} / ({_sum('weight')} > 0))"
_EFFECTIVE: Final = f"({_sum('weight')} ^ 2 / ({_sum('weight_square')} > 0) >= {_NORMAL_FROM})"
_REACH: Final = (
    f"1.96 * sqrt(clamp_min({_sum('weight_square_score_square')} "
    f"- 2 * {_MEAN} * {_sum('weight_square_score')} + {_MEAN} ^ 2 * {_sum('weight_square')}, 0) "
    f"* {_EFFECTIVE} / ({_EFFECTIVE} - 1)) / {_sum('weight')}"
)

_ENDS: Final[tuple[Json, ...]] = (
    {
        "matcher": {"id": "byRegexp", "options": "/ (low|high)$/"},
        "properties": [
            {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [4, 4]}},
            {"id": "custom.lineWidth", "value": 1},
        ],
    },
    {
        "matcher": {"id": "byRegexp", "options": "/past week/"},
        "properties": [
            {"id": "custom.lineStyle", "value": {"fill": "dot", "dash": [1, 6]}},
            {"id": "color", "value": {"mode": "fixed", "fixedColor": "text"}},
        ],
    },
)
"""Ends of intervals are dashed, baselines dotted."""

_SCORE_COLORS: Final = {
    "0": "dark-red",
    "1": "red",
    "2": "orange",
    "3": "yellow",
    "4": "light-green",
    "5": "dark-green",
}

_STATS: Final = Line(
    5,
    (
        Panel(
            title="Mean, last $window",
            description="Weighted mean of the scores over the chosen window, by metric and evaluator: each answer counts for "
            "as many as it was sampled from. Red below 3, the floor of an alert; a scale of your own may put good "
            "elsewhere.",
            type="stat",
            unit="short",
            no_data=_NO_SCORES,
            empty="no scores",
            queries=(Query(expr=_by_evaluator(_score("mean", _ALL)), legend="{{metric}} · {{evaluator}}"),),
            alerts=("JudgestreamScoreBelowFloor",),
            thresholds=((3, "green"),),
            base_color="red",
            decimals=2,
        ),
        Panel(
            title="Against the past week",
            description="Points by which the mean of the last hour differs from what the same apps scored in the past week, by "
            "the same evaluator; below 0 is worse. The mix of apps is that of now, so that more traffic to a weak "
            "app is no drop. Yellow below -0.2, red below -0.3, the sizes of the alerts.",
            type="stat",
            unit="short",
            no_data=_NO_BASELINE,
            empty="no baseline yet",
            queries=(
                Query(
                    expr=_by_evaluator(f"-1 * {_drop('points1h', _ALL)}"), legend="{{metric}} · {{evaluator}}"
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
            description="How many equally weighted answers would say as much: (sum of w)² / sum of w². Below 3 there is no "
            "interval, below 30 no alert. Quiet is no data, never a bad score.",
            type="stat",
            unit="short",
            no_data=_NO_SCORES,
            empty="no scores",
            queries=(
                Query(
                    expr=_by_evaluator(_score("effective_count", _ALL)), legend="{{metric}} · {{evaluator}}"
                ),
            ),
            thresholds=((3, "yellow"), (30, "green")),
            base_color="red",
            decimals=0,
            minimum=0,
        ),
        Panel(
            title="Without a number, last $window",
            description="Share of the results that carry no score and are in no mean: *unscored* (nothing to judge) and "
            "*failed* (judging went wrong). Where it is large, the mean speaks for the rest only. Yellow from 10%, red "
            "from 30%.",
            type="stat",
            unit="percentunit",
            no_data="Every result carries a number, or there are none",
            empty="none",
            queries=(
                Query(
                    expr=f'slice:judgestream_results:share$window{{{_ALL}, status!="scored"}}',
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

_MEANS: Final = (
    Line(
        10,
        (
            Panel(
                title="$metric: mean with its 95% interval",
                description="All traffic, over the chosen window. The true mean lies between the dashed lines in 19 of 20 "
                "cases (Student's t on the effective sample size, with one imagined answer, so that ten equal scores "
                "prove nothing). Dotted: what the same apps scored in the past week. A new evaluator is a new line: "
                "compare within a line only. A gap is quiet, not bad.",
                unit="short",
                no_data=_NO_SCORES,
                queries=(
                    *(
                        Query(expr=_by_evaluator(_score(name, _ALL)), legend=f"{{{{evaluator}}}} {name}")
                        for name in ("mean", "low", "high")
                    ),
                    Query(
                        expr=_by_evaluator(_drop("baseline1h", _ALL)),
                        legend="{{evaluator}} past week",
                    ),
                ),
                alerts=("JudgestreamScoreBelowFloor",),
                decimals=2,
                overrides=_ENDS,
                repeat="metric",
            ),
        ),
    ),
    Line(
        9,
        (
            Panel(
                title="Chosen apps and models: mean with its 95% interval",
                description="The same for the apps and models chosen above, taken together. The interval is shown from 30 "
                "effective answers on (1.96 standard errors); below that the mean alone says little.",
                unit="short",
                no_data="No answer of the chosen apps and models was scored in this time; a label must be named in "
                "telemetry.labels to be chosen",
                queries=tuple(
                    Query(
                        expr=_by_evaluator(expr),
                        legend=f"{{{{metric}}}} · {{{{evaluator}}}} {name}",
                    )
                    for name, expr in (
                        ("mean", _MEAN),
                        ("low", f"{_MEAN} - {_REACH}"),
                        ("high", f"{_MEAN} + {_REACH}"),
                    )
                ),
                decimals=2,
                overrides=_ENDS,
            ),
            Panel(
                title="Points below the past week",
                description="How far the last hour, and the last six hours, lie below the same apps' past week. Above 0 is worse. "
                "Dashed at 0.2 and 0.3, the sizes of the alerts over six hours and one; they also ask that it is no "
                "chance, beside this.",
                unit="short",
                no_data=_NO_BASELINE,
                queries=tuple(
                    Query(
                        expr=_by_evaluator(_drop(f"points{window}", _ALL)),
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
                description="The points beside, divided by their standard error with 0.05 points of everyday wander. Between -2 "
                "and 2 is chance. Dashed at 4: from there on a drop that is large enough becomes an alert.",
                unit="short",
                no_data=_NO_BASELINE,
                queries=tuple(
                    Query(
                        expr=_by_evaluator(_drop(f"z{window}", _ALL)),
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


def _breakdown(name: str, variable: str) -> Panel:
    """The mean by one event label.

    Args:
        name: The label.
        variable: Regular expression that its values must fit.
    """
    selector = f'{_SLICES}, slice=~"{name}={variable}"'
    return Panel(
        title=f"Mean by {name}",
        description=f"Over the chosen window, one line for each value of the event label {name} with at least "
        f"{_FEW} effective answers. `other` stands for values beyond `telemetry.max_label_values`.",
        unit="short",
        no_data=f"No value of {name} has {_FEW} effective answers in this time, or telemetry.labels does not name {name}",
        queries=(
            Query(
                expr=_by_evaluator(_enough(_score("mean", selector), selector)),
                legend="{{metric}} {{slice}} · {{evaluator}}",
            ),
        ),
        alerts=("JudgestreamPartDrop",),
        decimals=2,
    )


def _column(name: str, digits: int) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": "decimals", "value": digits}],
    }


_SOME: Final = f'{_SLICES}, slice!="all"'
_COLUMNS: Final = {
    "points below the past week": _drop("points1h", _SOME),
    "standard errors": _drop("z1h", _SOME),
    "mean": _score("mean", _SOME, "1h"),
    "low": _score("low", _SOME, "1h"),
    "high": _score("high", _SOME, "1h"),
    "effective answers": _score("effective_count", _SOME, "1h"),
}
_IDENTITY: Final = ("metric", "slice", "fingerprint", "job", "namespace", "cluster")

_MONITOR: Final = 'job=~"$job", metric=~"$metric", slice="all"'
_WHERE: Final = (
    Line(
        8,
        (
            Panel(
                title="Evidence for a drop",
                description="What the monitor's test has gathered, as a share of what it needs: 1 calls a drop. By measure: the "
                "mean within the parts of the traffic, shares of low scores, and the mix.",
                type="timeseries",
                unit="short",
                no_data="No worker runs the monitor, or there was no result for a day",
                queries=(
                    Query(
                        expr=f"max by (metric, measure, fingerprint) (judgestream_monitor_evidence{{{_MONITOR}}})"
                        " / max by (metric, measure, fingerprint) "
                        f"(judgestream_monitor_threshold{{{_MONITOR}}} > 0)",
                        legend="{{metric}} {{measure}}",
                    ),
                ),
                alerts=("JudgestreamDrop", "JudgestreamPartDrop", "JudgestreamMixShift"),
                decimals=2,
            ),
            Panel(
                title="Normal and tolerated mean",
                description="What the monitor has learned: the mean of the baseline, and the lowest one that is all right. Beside "
                "them the sampling rules that had answers in the past week and none lately.",
                type="timeseries",
                unit="short",
                no_data="The monitor is still learning",
                queries=(
                    Query(
                        expr=f'max by (metric, fingerprint) (judgestream_monitor_baseline{{{_MONITOR}, measure="mean"}})',
                        legend="{{metric}} normal",
                    ),
                    Query(
                        expr=f'max by (metric, fingerprint) (judgestream_monitor_tolerated{{{_MONITOR}, measure="mean"}})',
                        legend="{{metric}} tolerated",
                    ),
                    Query(
                        expr=f"max by (metric) (judgestream_monitor_missing_strata{{{_MONITOR}}} > 0)",
                        legend="{{metric}} rules without answers",
                    ),
                ),
                alerts=("JudgestreamStratumSilent",),
                decimals=2,
            ),
        ),
    ),
    Line(
        9,
        (
            _breakdown("app", "$app"),
            _breakdown("model", "$model"),
            _breakdown("prompt_version", ".+"),
        ),
    ),
    Line(
        10,
        (
            Panel(
                title="Worst labels, last hour",
                description="Every value of every event label in metrics, the one furthest below its own past week first. Believe "
                "a row from 4.5 standard errors on: among many rows some are low by chance. Rows without a "
                "past week yet come last; look at their upper end.",
                type="table",
                unit="short",
                no_data="No scored answer with an event label in the last hour; telemetry.labels names the labels",
                queries=tuple(Query(expr=expr, instant=True, table=True) for expr in _COLUMNS.values()),
                alerts=("JudgestreamPartDrop",),
                transformations=(
                    {"id": "merge", "options": {}},
                    {
                        "id": "organize",
                        "options": {
                            "excludeByName": {"Time": True},
                            "indexByName": {
                                name: index
                                for index, name in enumerate(
                                    [
                                        *_IDENTITY[:2],
                                        *(f"Value #{chr(ord('A') + n)}" for n in range(len(_COLUMNS))),
                                        *_IDENTITY[2:],
                                    ]
                                )
                            },
                            "renameByName": {
                                f"Value #{chr(ord('A') + index)}": name for index, name in enumerate(_COLUMNS)
                            },
                        },
                    },
                ),
                overrides=(
                    *(_column(name, 2) for name in ("points below the past week", "mean", "low", "high")),
                    _column("standard errors", 1),
                    _column("effective answers", 0),
                ),
                options={"sortBy": [{"displayName": "points below the past week", "desc": True}]},
            ),
            Panel(
                title="Alerts",
                description="What was pending (the condition holds, not yet for long enough) or firing, of all alerts about this "
                "installation. An alert about the judge beside one about quality: look at the judge first.",
                type="state-timeline",
                unit="short",
                no_data="No alert was pending or firing in this time",
                queries=(
                    Query(
                        expr=f'max by (alertname, metric, slice) (2 * {ALERTS}, alertstate="firing"}} '
                        f'or {ALERTS}, alertstate="pending"}})',
                        legend="{{alertname}} {{metric}} {{slice}}",
                    ),
                ),
                thresholds=((2, "red"),),
                base_color="yellow",
                mappings=(
                    {
                        "type": "value",
                        "options": {
                            "1": {"text": "pending", "color": "yellow", "index": 0},
                            "2": {"text": "firing", "color": "red", "index": 1},
                        },
                    },
                ),
            ),
        ),
    ),
)

_MADE_OF: Final = (
    Line(
        9,
        (
            Panel(
                title="$metric: distribution of the scores",
                description="Share of each score among the results of the chosen apps and models, as they were judged (not "
                "weighted). It tells a few terrible answers from many mediocre ones, which a mean does not.",
                unit="short",
                no_data=_NO_SCORES,
                queries=(
                    Query(
                        expr=_by_evaluator(
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
                description="Effective sample size of the chosen window over time. It sets how wide the intervals are: four times "
                "as many answers halve them. Dashed at 30, below which no alert is raised.",
                unit="short",
                no_data=_NO_SCORES,
                queries=(
                    Query(
                        expr=_by_evaluator(_score("effective_count", _ALL)),
                        legend="{{metric}} · {{evaluator}}",
                    ),
                ),
                thresholds=((30, "green"),),
                base_color="red",
                minimum=0,
            ),
            Panel(
                title="Spread of the scores",
                description="Weighted standard deviation of the scores themselves. A mean that falls with a growing spread: some "
                "answers went bad. With the same spread: all got a little worse, or the judge became stricter.",
                unit="short",
                no_data=_NO_SCORES,
                queries=(
                    Query(
                        expr=_by_evaluator(_score("standard_deviation", _ALL)),
                        legend="{{metric}} · {{evaluator}}",
                    ),
                ),
                decimals=2,
                minimum=0,
            ),
            Panel(
                title="Results by status",
                description="Shares of scored, unscored and failed results over the chosen window. A mean over a shrinking share "
                "of scored ones is a mean over other answers. Reasons are on the dashboard Pipeline.",
                unit="percentunit",
                no_data="No results in this time, or the recording rules are not loaded",
                queries=(
                    Query(
                        expr=f"slice:judgestream_results:share$window{{{_ALL}}}",
                        legend="{{metric}} {{status}}",
                    ),
                ),
                minimum=0,
                maximum=1,
            ),
        ),
    ),
)


def quality() -> Dashboard:
    """Build it."""
    return Dashboard(
        uid=common.QUALITY_UID,
        title=common.TITLES[common.QUALITY_UID],
        description="Did answers get worse, where, and how sure is that?",
        variables=(
            common.datasource(),
            common.workers()[0],
            common.metrics(),
            common.choice(
                "window",
                "Window",
                ("5m", "1h", "1d"),
                "1h",
                "Time over which means are taken. Longer is surer and later.",
            ),
            *common.event_labels(),
            common.runbooks(),
        ),
        annotations=common.marks(),
        links=common.links(common.QUALITY_UID),
        sections=(
            Section("Now", (_STATS,)),
            Section("Did answers get worse?", _MEANS),
            Section("Where?", _WHERE),
            Section("What the mean is made of", _MADE_OF),
        ),
        span="24h",
    )
