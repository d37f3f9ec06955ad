"""`make sbom` lists exactly the pinned packages."""

from __future__ import annotations

import json
import tomllib

import pytest
from packaging.utils import canonicalize_name

from tests.deploy.pins import pinned
from tests.places import ROOT
from tests.toolbox import run


@pytest.mark.tools
@pytest.mark.timeout(300)
def test_it_lists_exactly_the_pinned_packages() -> None:
    """Every package is listed with version and licence; the tool validates the format."""
    run("make", "sbom", cwd=ROOT)
    document = json.loads((ROOT / "dist" / "judgestream.cdx.json").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    root = document["metadata"]["component"]
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert (root["name"], root["version"]) == ("judgestream", project["version"])
    assert {canonicalize_name(one["name"]): one["version"] for one in document["components"]} == pinned()
    # The distribution of protobuf names no licence; its LICENSE file is BSD-3-Clause.
    assert [one["name"] for one in document["components"] if not one.get("licenses")] == ["protobuf"]
    assert str(ROOT) not in json.dumps(document)
