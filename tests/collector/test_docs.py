"""The documented configurations of a Collector."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.collector.collector import binary
from tests.places import ROOT
from tests.toolbox import run

pytestmark = [pytest.mark.collector, pytest.mark.timeout(120)]


def configuration(page: str) -> str:
    """The first block of a page that starts with the mark."""
    _, _, after = (ROOT / "docs" / page).read_text(encoding="utf-8").partition("    # Collector\n")
    lines = []
    for line in after.splitlines():
        if line.startswith("    # ") or (line and not line.startswith("    ")):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines))


@pytest.mark.parametrize("page", ["traces.md", "sinks.md"])
def test_a_collector_takes_the_pages_configuration(page: str, tmp_path: Path) -> None:
    config = tmp_path / "collector.yaml"
    config.write_text(configuration(page), encoding="utf-8")
    run(binary(), "validate", "--config", config)
