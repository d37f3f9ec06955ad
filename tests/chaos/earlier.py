"""The last release, installed from its wheel, with the packages that it pins."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from tests.places import ROOT
from tests.toolbox import ended, run

BEFORE_THE_FIRST_RELEASE: Final = "33ce70f"
"""Stands for the last release while there is none."""
_PIP: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
_FORMAT = re.compile(r"^STATE_VERSION: Final = (\d+)$", re.MULTILINE)


def revision() -> str:
    """The commit of the newest release before this one; `CHAOS_EARLIER` names another."""
    found = ended("git", "describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^", cwd=ROOT)
    last = found.stdout.strip() if found.returncode == 0 else BEFORE_THE_FIRST_RELEASE
    named = os.environ.get("CHAOS_EARLIER", last)
    commit = ended("git", "rev-parse", "--verify", f"{named}^{{commit}}", cwd=ROOT)
    assert commit.returncode == 0, f"{named} is not in this clone: git fetch --unshallow --tags brings it"
    return commit.stdout.strip()


def extract(folder: Path, *paths: str) -> Path:
    packed = folder / "earlier.tar"
    run("git", "archive", "--format=tar", f"--output={packed}", revision(), *paths, cwd=ROOT)
    run("tar", "--extract", "--file", packed, "--directory", folder)
    return folder


def program() -> list[str]:
    """Build its wheel and install it in an environment of its own; returns the command that starts it."""
    home = ROOT / ".cache" / "earlier" / revision()
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():
        shutil.rmtree(home, ignore_errors=True)
        run(sys.executable, "-m", "venv", home)
        sources = extract(home)
        run(python, *_PIP, "--require-hashes", "--requirement", sources / "requirements" / "runtime.txt")
        run(python, *_PIP, "--no-deps", sources)
        ready.touch()
    return [str(home / "bin" / "judgestream")]


def state_version() -> int | None:
    """The version of the monitor's state that it writes; None if it says none."""
    modules = ended(
        "git", "grep", "-h", "STATE_VERSION: Final", revision(), "--", "streams/monitoring", cwd=ROOT
    )
    found = _FORMAT.search(modules.stdout)
    return None if found is None else int(found[1])
