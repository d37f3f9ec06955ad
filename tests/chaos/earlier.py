"""The worker of an earlier version, from the git history."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from tests.places import ROOT

COMMIT: Final = os.environ.get("CHAOS_EARLIER", "9d4c37e")
"""From before the monitor wrote observations and transactions were read as committed.
`CHAOS_EARLIER` names another; it runs with the current dependencies."""
UNKNOWN: Final = (
    ("kafka", "start"),
    ("topics", "observations"),
    ("topics", "monitor_state"),
    ("topics", "anchors"),
)
"""Settings unknown to it."""


def missing() -> str | None:
    """The reason why it is unavailable, or None."""
    found = _git("cat-file", "-e", f"{COMMIT}^{{commit}}").returncode == 0
    return None if found else f"commit {COMMIT} is not in this clone: git fetch --unshallow brings it"


def program(directory: Path) -> list[str]:
    """Extract it into a directory; returns the command that starts it."""
    archive = _git("archive", "--format=tar", COMMIT, "streams", "judge", "schemas")
    assert archive.returncode == 0, archive.stderr.decode()
    sources = directory / "earlier"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(sources, filter="data")
    # Its modules precede the installed ones; -P omits the current directory.
    start = (
        f"import sys; sys.path.insert(0, {str(sources)!r}); from streams.cli.main import run; sys.exit(run())"
    )
    return [sys.executable, "-P", "-c", start]


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
