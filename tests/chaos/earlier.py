"""The worker of an earlier version, from the history of this clone."""

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
"""Before the modules moved, the monitor wrote what it observes, and transactions were read as committed.
Another one can be named; it runs on the libraries of today."""
UNKNOWN: Final = (("kafka", "start"), ("topics", "observations"), ("topics", "monitor_state"))
"""Settings that it does not have."""


def missing() -> str | None:
    """Say why it cannot be had, where it cannot."""
    found = _git("cat-file", "-e", f"{COMMIT}^{{commit}}").returncode == 0
    return None if found else f"commit {COMMIT} is not in this clone: git fetch --unshallow brings it"


def program(directory: Path) -> list[str]:
    """Write it into a folder of a directory, and give the words that start it."""
    archive = _git("archive", "--format=tar", COMMIT, "streams", "judge", "schemas")
    assert archive.returncode == 0, archive.stderr.decode()
    sources = directory / "earlier"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(sources, filter="data")
    # Before the installed ones, and without the current directory, which holds today's.
    start = (
        f"import sys; sys.path.insert(0, {str(sources)!r}); from streams.cli.main import run; sys.exit(run())"
    )
    return [sys.executable, "-P", "-c", start]


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
