"""`make audit`: what passes, and what must not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT

SCRIPT = ROOT / ".ci" / "audit.py"
FINE: dict[str, Any] = {"name": "aiohttp", "version": "3.14.5", "vulns": []}
BAD: dict[str, Any] = {
    "name": "orjson",
    "version": "3.1",
    "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["3.13.0"]}],
}
UNKNOWN: dict[str, Any] = {
    "name": "yarl",
    "skip_reason": "Dependency not found on PyPI and could not be audited",
}


def audited(folder: Path, *packages: dict[str, Any], files: int = 1) -> subprocess.CompletedProcess[str]:
    """Run the script with a pip-audit that says this of each file, and ends well as the real one does."""
    said = folder / "said.json"
    said.write_text(json.dumps({"dependencies": packages, "fixes": []}))
    stand_in = folder / "pip-audit"
    stand_in.write_text(f"#!/bin/sh\ncat '{said}'\necho 'No known vulnerabilities found' >&2\n")
    stand_in.chmod(0o755)
    return _run(stand_in, *(f"{number}.txt" for number in range(files)))


def _run(pip_audit: Path, *files: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, pip_audit, *files],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_answered_and_nothing_known(tmp_path: Path) -> None:
    """That alone is a pass."""
    done = audited(tmp_path, FINE, files=2)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "0.txt: 1 packages, 0 with known vulnerabilities",
        "1.txt: 1 packages, 0 with known vulnerabilities",
    ]


def test_what_is_known_is_named(tmp_path: Path) -> None:
    """Package, version, number and the version to take."""
    done = audited(tmp_path, FINE, BAD)
    assert done.returncode == 1
    assert "orjson 3.1: PYSEC-2026-1, mended in 3.13.0" in done.stdout


@pytest.mark.parametrize("packages", [[UNKNOWN], [FINE, UNKNOWN], []])
def test_no_answer_is_no_pass(packages: list[dict[str, Any]], tmp_path: Path) -> None:
    """A service that cannot be reached, knows nothing of a package, or was asked about none."""
    done = audited(tmp_path, *packages)
    assert done.returncode == 3
    assert "not audited: the vulnerability service said nothing about" in done.stderr


def test_a_pip_audit_that_breaks_is_no_pass(tmp_path: Path) -> None:
    """Its last line says why."""
    broken = tmp_path / "pip-audit"
    broken.write_text("#!/bin/sh\necho 'Traceback ...\nConnectionError: no route' >&2\nexit 1\n")
    broken.chmod(0o755)
    done = _run(broken, "runtime.txt")
    assert done.returncode == 3
    assert done.stderr == "runtime.txt: not audited: ConnectionError: no route\n"
