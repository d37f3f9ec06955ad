"""A package with extensions, installed as another team would install it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.toolbox import ended, run

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def with_extensions(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Install `extensions` into a folder; return what runs Python with it, as run(*arguments, cwd=...)."""
    folder = tmp_path_factory.mktemp("extensions")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    command = (sys.executable, "-m", "pip", "install", *offline, "--target", folder)
    run(*command, ROOT / "tests/examples/extensions")

    def run_python(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
        path = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}
        return ended(sys.executable, *arguments, cwd=cwd, env=path | env)

    return run_python
