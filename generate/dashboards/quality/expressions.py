"""Expressions over the recording rules of scores, and line styles. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import EVENTS
from generate.dashboards.grafana import Json

SLICES: Final = 'job=~"$job", metric=~"$metric"'
ALL: Final = f'{SLICES}, slice="all"'
NO_SCORES: Final = "No answer was scored in this time, or the recording rules are not loaded"
NO_BASELINE: Final = (
    "No baseline yet: it takes 50 scored answers of one evaluator within a week, older than six hours"
)
FEW: Final = 10
"""Slices with fewer effective answers are left out, because their means are too imprecise."""


def by_evaluator(expr: str) -> str:
    """Add a label with the first eight characters of the evaluator's fingerprint, for legends."""
    return f'label_replace({expr}, "evaluator", "$1", "fingerprint", "(.{{0,8}}).*")'


def score(name: str, selector: str, window: str = "$window") -> str:
    """Return a statistic of the scores over a window."""
    return f"slice:judgestream_score:{name}{window}{{{selector}}}"


def drop(name: str, selector: str) -> str:
    """Return a statistic of the drop against the past week."""
    return f"slice:judgestream_score_drop:{name}{{{selector}}}"


def enough(expr: str, selector: str) -> str:
    """Return an expression limited to slices with enough effective answers."""
    return f"{expr} and {score('effective_count', selector)} >= {FEW}"


def _sum(name: str) -> str:
    """Return one of the six sums over the selected apps and models."""
    rule = f'labels:judgestream_score_sums:increase$window{{{EVENTS}, sum="{name}"}}'
    return f"sum by (metric, fingerprint) ({rule})"


MEAN: Final = f"({_sum('weighted')} / ({_sum('weight')} > 0))"

ENDS: Final[tuple[Json, ...]] = (
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
