"""The panels *Can it be believed?*: corrections, suspicions, evaluators, panels. Pure."""

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
                description="What the judge claimed and code found otherwise, a second: spans that do not "
                "occur, pages that do not exist, scores above what their claims allow. Each is named in its "
                "result.",
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
                description="The same, for each verdict of the metric: independent of how much is judged. A "
                "step without a change of evaluator points to the model behind the same name, or to other "
                "traffic.",
                unit="short",
                no_data="No correction so far",
                queries=(Query(expr=corrections_of("metric"), legend="{{metric}}"),),
                alerts=("JudgestreamCorrectionsRising",),
                decimals=2,
                minimum=0,
            ),
            Panel(
                title="Suspicions for each verdict",
                description="What code finds odd and cannot show to be wrong, for each verdict of the "
                "metric; no score was lowered. `no_citation` near 1: the answers cite in a form that is not "
                "understood.",
                unit="percentunit",
                no_data="No suspicion so far",
                queries=(Query(expr=_suspicions(), legend="{{metric}} {{kind}}"),),
                minimum=0,
                options=TABLE_LEGEND,
            ),
            Panel(
                title="Evaluators",
                description="Who judges: prompt, response schema, scoring rules, model and its parameters "
                "make a fingerprint. Numbers of two fingerprints are never added up. Two for one metric: a "
                "rollout, or workers with different settings.",
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
                description="How far a panel's votes are from its result, on average over the window: 0 they "
                "all agree, 1 as far as the scale goes. A rise without a change of evaluator: harder "
                "questions, or a member whose model has changed.",
                unit="percentunit",
                no_data="No metric has a panel",
                queries=(Query(expr=_disagreement(), legend="{{metric}}"),),
                minimum=0,
            ),
        ),
    ),
)
