"""The dashboard *Quality*: drops of quality, their place and significance. Pure.

It uses the recording rules, which separate the scores of each evaluator.
"""

from __future__ import annotations

from generate.dashboards import common
from generate.dashboards.grafana import Dashboard, Section
from generate.dashboards.quality.means import MEANS, STATS
from generate.dashboards.quality.parts import WHERE
from generate.dashboards.quality.scores import MADE_OF


def quality() -> Dashboard:
    """Build the dashboard."""
    return Dashboard(
        uid=common.QUALITY_UID,
        title=common.TITLES[common.QUALITY_UID],
        description="Did answers get worse, where, and how certain is it?",
        variables=(
            common.datasource(),
            common.workers()[0],
            common.metrics(),
            common.choice(
                "window",
                "Window",
                ("5m", "1h", "1d"),
                "1h",
                "Window of the means. Longer is more precise but later.",
            ),
            *common.event_labels(),
            common.runbooks(),
        ),
        annotations=common.marks(),
        links=common.links(common.QUALITY_UID),
        sections=(
            Section("Now", (STATS,)),
            Section("Did answers get worse?", MEANS),
            Section("Where?", WHERE),
            Section("What the mean is made of", MADE_OF),
        ),
        span="24h",
    )
