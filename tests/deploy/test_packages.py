from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.pins import pinned
from tests.places import ROOT
from tests.toolbox import ended, run


@pytest.mark.tools
@pytest.mark.timeout(300)
def test_it_lists_exactly_the_pinned_packages() -> None:
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


def test_packages_are_pinned_with_the_extras_that_others_require() -> None:
    """Before pip 24, `name==1` did not pin `name[extra]`: the newest was chosen, and has no hash."""
    text = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    pins = {
        one.name: one.extras
        for one in map(Requirement, re.findall(r"^[\w.\[\],-]+==[^ ]+", text, re.MULTILINE))
    }
    needed = [
        (distribution.name, one)
        for distribution in importlib.metadata.distributions()
        if distribution.name != "judgestream"  # is installed without its dependencies
        for one in map(Requirement, distribution.requires or ())
        if one.extras and one.name in pins and (one.marker is None or one.marker.evaluate({"extra": ""}))
    ]
    assert needed, "some package requires an extra of another"
    assert [(name, str(one)) for name, one in needed if not one.extras <= pins[one.name]] == []


SCRIPT = ROOT / ".ci" / "audit.py"
FINE: dict[str, Any] = {"name": "aiohttp", "version": "3.14.5", "vulns": []}
_FAULT = {"id": "PYSEC-2026-1", "fix_versions": ["3.13.0"]}
BAD: dict[str, Any] = {"name": "orjson", "version": "3.1", "vulns": [_FAULT]}
UNKNOWN: dict[str, Any] = {"name": "yarl", "skip_reason": "could not be audited"}


def audited(folder: Path, *packages: dict[str, Any], files: int = 1) -> subprocess.CompletedProcess[str]:
    said = folder / "said.json"
    said.write_text(json.dumps({"dependencies": packages, "fixes": []}))
    stand_in = folder / "pip-audit"
    stand_in.write_text(f"#!/bin/sh\ncat '{said}'\necho 'No known vulnerabilities found' >&2\n")
    stand_in.chmod(0o755)
    return ended(sys.executable, SCRIPT, stand_in, *(f"{number}.txt" for number in range(files)))


def test_a_known_vulnerability_fails_and_none_passes(tmp_path: Path) -> None:
    done = audited(tmp_path, FINE, files=2)
    assert (done.returncode, done.stderr) == (0, "")
    told = [f"{number}.txt: 1 packages, 0 with known vulnerabilities" for number in range(2)]
    assert done.stdout.splitlines() == told
    done = audited(tmp_path, FINE, BAD)
    assert done.returncode == 1
    assert "orjson 3.1: PYSEC-2026-1, mended in 3.13.0" in done.stdout


@pytest.mark.parametrize("packages", [[UNKNOWN], [FINE, UNKNOWN], []])
def test_no_answer_is_no_pass(packages: list[dict[str, Any]], tmp_path: Path) -> None:
    done = audited(tmp_path, *packages)
    assert done.returncode == 3
    assert "not audited: the vulnerability service said nothing about" in done.stderr


def test_a_pip_audit_that_breaks_is_no_pass(tmp_path: Path) -> None:
    broken = tmp_path / "pip-audit"
    broken.write_text("#!/bin/sh\necho 'Traceback ...\nConnectionError: no route' >&2\nexit 1\n")
    broken.chmod(0o755)
    done = ended(sys.executable, SCRIPT, broken, "runtime.txt")
    assert done.returncode == 3
    assert done.stderr == "runtime.txt: not audited: ConnectionError: no route\n"
