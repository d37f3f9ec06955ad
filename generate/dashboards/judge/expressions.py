"""Common expressions and no-data texts of the dashboard *Judge*. Pure."""

from __future__ import annotations

from typing import Final

from generate.dashboards.common import METRIC, WINDOW

CALLS: Final = "judgestream_judge_call_seconds_count"
NO_CALLS: Final = "No judge call ended in this time"
NO_PRICE: Final = (
    "No cost is known: usd_per_million_tokens is not set for the endpoint, or nothing was judged"
)
NO_VERDICT: Final = 'outcome!~"scored|unscored"'


def corrections_of(by: str) -> str:
    """Return the corrections per verdict, by a label."""
    scored = f'sum by ({by}) (rate(judgestream_results_total{{{METRIC}, status!="failed"}}[{WINDOW}])) > 0'
    corrections = f"sum by ({by}) (rate(judgestream_verdict_corrections_total{{{METRIC}}}[{WINDOW}]))"
    return f"{corrections} / ({scored})"
