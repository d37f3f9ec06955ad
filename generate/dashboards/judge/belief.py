"""The panels *Is it reliable?*: corrections, suspicions, evaluators, panels. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import METRIC, WINDOW, rate
from generate.dashboards.grafana import TABLE_LEGEND, Line, Panel, Query
from generate.dashboards.judge.expressions import corrections_of


def _suspicions() -> str:
    verdicts = (
        f'sum by (metric) (rate(judgestream_results_total{{{METRIC}, status!="failed"}}[{WINDOW}])) > 0'
    )
    suspicions = rate("judgestream_verdict_suspicions_total", "metric, kind", METRIC)
    return f"{suspicions} / on (metric) group_left () ({verdicts})"


def _disagreement() -> str:
    name = "judgestream_panel_disagreement_ratio"
    return f"{rate(f'{name}_sum', 'metric', METRIC)} / ({rate(f'{name}_count', 'metric', METRIC)} > 0)"


BELIEF: Final = (
    Line(
        8,
        (
            Panel(
                title="Corrections by kind",
                description="Corrections per second: quotations that do not occur, pages that do not exist, "
                "scores above what the claims allow. Each is listed in its result.",
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
                description="Corrections per verdict of the metric. A step without a new evaluator points "
                "to a changed model behind the same name, or to other traffic.",
                unit="short",
                no_data="No correction so far",
                queries=(Query(expr=corrections_of("metric"), legend="{{metric}}"),),
                alerts=("JudgestreamCorrectionsRising",),
                decimals=2,
                minimum=0,
            ),
            Panel(
                title="Suspicions for each verdict",
                description="Suspicions per verdict of the metric; no score was lowered. `no_citation` near "
                "1: the answers' citation format is not recognised.",
                unit="percentunit",
                no_data="No suspicion so far",
                queries=(Query(expr=_suspicions(), legend="{{metric}} {{kind}}"),),
                minimum=0,
                options=TABLE_LEGEND,
            ),
            Panel(
                title="Evaluators",
                description="Evaluators in use: prompt, response schema, scoring rules, model and "
                "parameters make a fingerprint. Scores of two fingerprints are never combined. Two for "
                "one metric: a rollout, or workers with different settings.",
                type="table",
                unit="short",
                no_data="No result was written since the workers started",
                queries=(
                    Query(
                        expr=f"count by (job, metric, fingerprint, model) "
                        f"(judgestream_evaluator_info{{{METRIC}}})",
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
    Line(
        6,
        (
            Panel(
                title="Disagreement of panels",
                description="Mean distance of a panel's votes from its result: 0 all agree, 1 the whole "
                "scale. A rise without a new evaluator: harder questions, or a member's model has "
                "changed.",
                unit="percentunit",
                no_data="No metric has a panel",
                queries=(Query(expr=_disagreement(), legend="{{metric}}"),),
                minimum=0,
            ),
        ),
    ),
)
