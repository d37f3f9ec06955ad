"""The dashboard *Judge*: availability, cost and reliability of the judge. Pure."""

from __future__ import annotations

from generate.dashboards import common
from generate.dashboards.grafana import Dashboard, Section
from generate.dashboards.judge.belief import BELIEF
from generate.dashboards.judge.calls import CALL_LINES
from generate.dashboards.judge.price import PRICE
from generate.dashboards.judge.stats import STATS


def judge() -> Dashboard:
    """Build the dashboard."""
    return Dashboard(
        uid=common.JUDGE_UID,
        title=common.TITLES[common.JUDGE_UID],
        description="Does the judge answer, at what cost, and are its verdicts reliable?",
        variables=(
            common.datasource(),
            *common.workers(),
            common.metrics(),
            common.endpoints(),
            common.runbooks(),
        ),
        annotations=common.marks(),
        links=common.links(common.JUDGE_UID),
        sections=(
            Section("Now", (STATS,)),
            Section("Calls", CALL_LINES),
            Section("Tokens and cost", PRICE),
            Section("Is it reliable?", BELIEF),
        ),
        span="6h",
    )
