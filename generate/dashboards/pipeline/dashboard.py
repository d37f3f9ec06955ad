"""The dashboard *Pipeline*: completeness and delay of judging. Pure."""

from __future__ import annotations

from generate.dashboards import common
from generate.dashboards.grafana import Dashboard, Section
from generate.dashboards.pipeline.backlog import BACKLOG
from generate.dashboards.pipeline.intake import INTAKE
from generate.dashboards.pipeline.results import RESULTS
from generate.dashboards.pipeline.sinks import SINKS
from generate.dashboards.pipeline.stats import STATS
from generate.dashboards.pipeline.workers import WORKERS


def pipeline() -> Dashboard:
    """Build the dashboard."""
    return Dashboard(
        uid=common.PIPELINE_UID,
        title=common.TITLES[common.PIPELINE_UID],
        description="Are all sampled events judged, and how soon?",
        variables=(common.datasource(), *common.workers(), common.metrics(), common.runbooks()),
        annotations=common.marks(),
        links=common.links(common.PIPELINE_UID),
        sections=(
            Section("Now", (STATS,)),
            Section("Workers", WORKERS),
            Section("Intake", INTAKE),
            Section("Backlog", BACKLOG),
            Section("Results", RESULTS),
            Section("Sinks", SINKS),
        ),
        span="6h",
    )
