"""Finds the outside tools of tests marked `tools`. A missing one is a failure, not a skip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BIN_VARIABLE = "JUDGESTREAM_TOOLS_BIN"
PYTHON_VARIABLE = "JUDGESTREAM_TOOLS_PYTHON"
NODE_VARIABLE = "JUDGESTREAM_TOOLS_NODE"
SCHEMAS_VARIABLE = "JUDGESTREAM_TOOLS_SCHEMAS"
BASE_VARIABLE = "JUDGESTREAM_TOOLS_BASE"
CRDS_VARIABLE = "JUDGESTREAM_TOOLS_CRDS"
WHEELS_VARIABLE = "JUDGESTREAM_TOOLS_WHEELS"


def tool(name: str) -> str:
    """The path of a program, from the folder in JUDGESTREAM_TOOLS_BIN or from PATH."""
    path = os.environ.get("PATH", os.defpath)
    folder = os.environ.get(BIN_VARIABLE)
    found = shutil.which(name, path=path if folder is None else os.pathsep.join([folder, path]))
    if found is None:
        pytest.fail(f"{name} is not there: install it, put it on PATH or let {BIN_VARIABLE} name its folder")
    return found


def python_with(module: str) -> str:
    """A Python that can import a module: that of JUDGESTREAM_TOOLS_PYTHON or this one."""
    python = os.environ.get(PYTHON_VARIABLE, sys.executable)
    if ended(python, "-c", f"import {module}").returncode:
        pytest.fail(f"{python} cannot import {module}: install it; {PYTHON_VARIABLE} may name its Python")
    return python


def node_modules(manifest: Path) -> Path:
    """The installed packages of a package.json: `node_modules` under JUDGESTREAM_TOOLS_NODE."""
    folder = os.environ.get(NODE_VARIABLE)
    modules = (manifest.parent if folder is None else Path(folder)) / "node_modules"
    if not modules.is_dir():
        pytest.fail(
            f"{modules} is not there: copy {manifest.parent}/* to a folder, run `npm ci` in it and let "
            f"{NODE_VARIABLE} name it"
        )
    return modules


def _made(variable: str, pattern: str, what: str, place: str) -> list[Path]:
    """What `.ci/tools FOLDER` has put where a variable says."""
    found = sorted(Path(os.environ.get(variable, "/nowhere")).glob(pattern))
    if not found:
        pytest.fail(f"{what} are not there: let `.ci/tools FOLDER` make them and {variable} name {place}")
    return found


def wheels() -> Path:
    """The folder with the pinned packages of the service and what builds its wheel."""
    return _made(WHEELS_VARIABLE, "*.whl", "the wheels", "FOLDER/wheels")[0].parent


def kubernetes_schemas() -> Path:
    """The folder with Kubernetes' JSON Schemas as kubeconform reads them (`-schema-location FOLDER`)."""
    return _made(SCHEMAS_VARIABLE, "v*-standalone-strict", "Kubernetes' schemas", "FOLDER/schemas")[0].parent


def kubernetes_versions() -> list[str]:
    """The Kubernetes versions in `kubernetes_schemas`, oldest first, as kubeconform names them (1.34.0)."""
    found = [
        folder.name.removeprefix("v").removesuffix("-standalone-strict")
        for folder in kubernetes_schemas().glob("v*-standalone-strict")
    ]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def custom_resource_definitions() -> list[Path]:
    """The files with KEDA's custom resource definitions."""
    return _made(CRDS_VARIABLE, "*.yaml", "custom resource definitions", "FOLDER/crds")


def image_base() -> Path:
    """The archive of the root file system of the Dockerfile's base image."""
    archive = os.environ.get(BASE_VARIABLE)
    if archive is None or not Path(archive).is_file():
        pytest.fail(
            "the base image's files are not there: let `.ci/tools FOLDER` make them and "
            f"{BASE_VARIABLE} name FOLDER/base/base.tar"
        )
    return Path(archive)


def ended(*command: str | Path, seconds: float = 100, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with options of `subprocess.run`."""
    options = {"capture_output": True, "text": True, "check": False, "timeout": seconds, **options}
    done: subprocess.CompletedProcess[str] = subprocess.run(command, **options)  # noqa: PLW1510 - in the options
    return done


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program to its end; fails with its output if it fails."""
    done = ended(*command, cwd=cwd, seconds=900)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}"
    return said
