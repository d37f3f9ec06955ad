"""The panels *Where?*: evidence, and the slices of traffic that got worse. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import ALERTS
from generate.dashboards.grafana import Json, Line, Panel, Query
from generate.dashboards.quality.expressions import FEW, SLICES, by_evaluator, drop, enough, score


def _breakdown(name: str, variable: str) -> Panel:
    """Return the panel of means by one event label.

    Args:
        name: The label.
        variable: Regular expression of its selected values.
    """
    selector = f'{SLICES}, slice=~"{name}={variable}"'
    return Panel(
        title=f"Mean by {name}",
        description=f"Over the chosen window, one line for each value of the event label {name} with at "
        f"least {FEW} effective answers. `other` stands for values beyond 20.",
        unit="short",
        no_data=f"No value of {name} has {FEW} effective answers in this time, or telemetry.labels does not "
        f"name {name}",
        queries=(
            Query(
                expr=by_evaluator(enough(score("mean", selector), selector)),
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


_SOME: Final = f'{SLICES}, slice!="all"'
_COLUMNS: Final = {
    "points below the past week": drop("points1h", _SOME),
    "standard errors": drop("z1h", _SOME),
    "mean": score("mean", _SOME, "1h"),
    "low": score("low", _SOME, "1h"),
    "high": score("high", _SOME, "1h"),
    "effective answers": score("effective_count", _SOME, "1h"),
}
_IDENTITY: Final = ("metric", "slice", "fingerprint", "job", "namespace", "cluster")

_MONITOR: Final = 'job=~"$job", metric=~"$metric", slice="all"'
_JUDGE: Final = 'job=~"$job", metric=~"$metric"'
WHERE: Final = (
    Line(
        8,
        (
            Panel(
                title="Evidence for a drop",
                description=(
                    "Evidence of the monitor's test as a share of its threshold: at 1 a drop is reported. By "
                    "measure: the mean within parts of the traffic, shares of low scores, and the mix."
                ),
                type="timeseries",
                unit="short",
                no_data="No worker runs the monitor, or there was no result for a day",
                queries=(
                    Query(
                        expr=f"max by (metric, measure, fingerprint) "
                        f"(judgestream_monitor_evidence{{{_MONITOR}}})"
                        " / max by (metric, measure, fingerprint) "
                        f"(judgestream_monitor_threshold{{{_MONITOR}}} > 0)",
                        legend="{{metric}} {{measure}}",
                    ),
                ),
                alerts=("JudgestreamDrop", "JudgestreamPartDrop"),
                decimals=2,
            ),
            Panel(
                title="Normal and tolerated mean",
                description="The monitor's baseline mean and the lowest tolerated mean; also sampling rules "
                "with answers in the past week and none lately.",
                type="timeseries",
                unit="short",
                no_data="The monitor is still learning",
                queries=(
                    Query(
                        expr=f"max by (metric, fingerprint) (judgestream_monitor_baseline{{{_MONITOR}, "
                        f'measure="mean"}})',
                        legend="{{metric}} normal",
                    ),
                    Query(
                        expr=f"max by (metric, fingerprint) (judgestream_monitor_tolerated{{{_MONITOR}, "
                        f'measure="mean"}})',
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
            Panel(
                title="Judge on its anchors",
                description="Mean difference of new scores of frozen answers from their first ones, with its "
                "95% interval; since the shift, if there is one. Below 0 the judge is stricter. With two "
                "judges, their correlation.",
                type="timeseries",
                unit="short",
                no_data="No anchors are enrolled (judgestream anchors add), or none was judged again yet",
                queries=(
                    *(
                        Query(
                            expr="max by (metric, fingerprint) "
                            f"(judgestream_monitor_anchors_{name}{{{_JUDGE}}})",
                            legend=f"{{{{metric}}}} {name}",
                        )
                        for name in ("mean", "low", "high")
                    ),
                    Query(
                        expr="max by (metric, fingerprint) "
                        f"(judgestream_monitor_judge_names{{{_JUDGE}}} > 1)",
                        legend="{{metric}} names of the judge",
                    ),
                    Query(
                        expr="max by (metric, fingerprint) "
                        f"(judgestream_monitor_two_phase_correlation{{{_JUDGE}}})",
                        legend="{{metric}} correlation with the cheap judge",
                    ),
                ),
                alerts=("JudgestreamJudgeShifted",),
                decimals=2,
            ),
            Panel(
                title="What people would give",
                description="Mean that people would give, estimated from their labels with its 95% interval, "
                "and the judge's of the same answers (judgestream calibrate).",
                type="timeseries",
                unit="short",
                no_data="No worker keeps the store, or its labels are too few or not chosen at random",
                queries=tuple(
                    Query(
                        expr=f"max by (metric, fingerprint) (judgestream_people_{name}{{{_JUDGE}}})",
                        legend=f"{{{{metric}}}} {name}",
                    )
                    for name in ("mean", "low", "high", "judge")
                ),
                decimals=2,
            ),
            Panel(
                title="Release gates",
                description="By how much the mean of a new version is better (judgestream compare), as asked "
                "of the explorer in the past hour; the answer is -1 worse, 0 not yet, 1 no worse.",
                type="timeseries",
                unit="short",
                no_data="No comparison was asked of a worker that keeps the store in this time",
                queries=tuple(
                    Query(
                        expr=f"max by (metric, label, old, new) (judgestream_release_{name}{{{_JUDGE}}})",
                        legend=f"{{{{metric}}}} {{{{label}}}}={{{{new}}}} {name}",
                    )
                    for name in ("low", "high", "answer")
                ),
                decimals=2,
            ),
            Panel(
                title="Error budget, how fast it is spent",
                description="Burn rates of monitor.objectives: 1 spends the error budget in exactly 30 "
                "days. Dashed at the alert limits over one hour (14.4) and six (6); over a day it is 3, "
                "over three 1.",
                type="timeseries",
                unit="short",
                no_data="No metric has an objective, or no answer was scored in this time",
                queries=tuple(
                    Query(
                        expr=by_evaluator(f"job_metric:judgestream_objective:burn_rate{window}{{{SLICES}}}"),
                        legend=f"{{{{metric}}}} · {{{{evaluator}}}} {window}",
                    )
                    for window in ("1h", "6h", "1d", "3d")
                ),
                alerts=("JudgestreamObjectiveBurnsFast", "JudgestreamObjectiveBurnsSlowly"),
                thresholds=((6, "yellow"), (14.4, "red")),
                decimals=1,
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
                description="Every value of every event label in metrics, the furthest below its own past "
                "week first. Trust a row from 4.5 standard errors on: among many rows some are low by "
                "chance. Rows without a past week come last; look at their upper end.",
                type="table",
                unit="short",
                no_data="No scored answer with an event label in the last hour; telemetry.labels names the "
                "labels",
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
                description="Pending and firing alerts of this installation. If alerts on judge and quality "
                "coincide, check the judge first.",
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
