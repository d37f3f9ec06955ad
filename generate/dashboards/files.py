"""The committed dashboards and their page of documentation."""

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
    """The dashboards by the name of their file."""
    return {"quality": quality(), "pipeline": pipeline(), "judge": judge()}


def files() -> Mapping[Path, str]:
    """What is committed, by its path."""
    made = {FOLDER / f"{name}.json": to_json(dashboard) for name, dashboard in all_dashboards().items()}
    return {**made, PAGE: page(all_dashboards().values())}
