"""The committed dashboards and their documentation page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from generate.dashboards.grafana import Dashboard, to_json
from generate.dashboards.judge.dashboard import judge
from generate.dashboards.page import page
from generate.dashboards.pipeline.dashboard import pipeline
from generate.dashboards.quality.dashboard import quality
from generate.places import ROOT

FOLDER: Final = ROOT / "helm" / "files" / "dashboards"
PAGE: Final = ROOT / "docs" / "dashboards.md"


def all_dashboards() -> Mapping[str, Dashboard]:
    """Return the dashboards by file name."""
    return {"quality": quality(), "pipeline": pipeline(), "judge": judge()}


def files() -> Mapping[Path, str]:
    """Return the dashboards and their page by path."""
    made = {FOLDER / f"{name}.json": to_json(dashboard) for name, dashboard in all_dashboards().items()}
    return {**made, PAGE: page(all_dashboards().values())}
