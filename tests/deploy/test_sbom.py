"""`make sbom`: the bill of materials is that of what is pinned."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.deploy.pins import pinned
from tests.toolbox import run

_ROOT = Path(__file__).parents[2]


@pytest.mark.tools
@pytest.mark.timeout(300)
def test_it_lists_exactly_what_is_pinned() -> None:
    """Every package in its version, with its licence; the tool itself validates the form."""
    run("make", "sbom", cwd=_ROOT)
    document = json.loads((_ROOT / "dist" / "judgestream.cdx.json").read_text(encoding="utf-8"))
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    root = document["metadata"]["component"]
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert (root["name"], root["version"]) == ("judgestream", project["version"])
    assert {canonicalize_name(one["name"]): one["version"] for one in document["components"]} == pinned()
    assert [one["name"] for one in document["components"] if not one.get("licenses")] == []
    assert str(_ROOT) not in json.dumps(document)
