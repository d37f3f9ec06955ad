"""Finds the outside tools of tests marked `tools`. A missing one is a failure, not a skip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

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
    tried = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    if tried.returncode:
        pytest.fail(
            f"{python} cannot import {module}: install it somewhere and let {PYTHON_VARIABLE} name "
            "that Python"
        )
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


def wheels() -> Path:
    """The folder with the pinned packages of the service and what builds its wheel."""
    folder = Path(os.environ.get(WHEELS_VARIABLE, "/nowhere"))
    if not any(folder.glob("*.whl")):
        pytest.fail(
            "the wheels are not there: let `.ci/tools FOLDER` fetch them and "
            f"{WHEELS_VARIABLE} name FOLDER/wheels"
        )
    return folder


def kubernetes_schemas() -> Path:
    """The folder with Kubernetes' JSON Schemas as kubeconform reads them (`-schema-location FOLDER`)."""
    folder = os.environ.get(SCHEMAS_VARIABLE)
    if folder is None or not any(Path(folder).glob("v*-standalone-strict")):
        pytest.fail(
            "Kubernetes' schemas are not there: let `.ci/tools FOLDER` make them and "
            f"{SCHEMAS_VARIABLE} name FOLDER/schemas"
        )
    return Path(folder)


def kubernetes_versions() -> list[str]:
    """The Kubernetes versions in `kubernetes_schemas`, oldest first, as kubeconform names them (1.34.0)."""
    found = [
        folder.name.removeprefix("v").removesuffix("-standalone-strict")
        for folder in kubernetes_schemas().glob("v*-standalone-strict")
    ]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def custom_resource_definitions() -> list[Path]:
    """The files with KEDA's custom resource definitions."""
    found = sorted(Path(os.environ.get(CRDS_VARIABLE, "/nowhere")).glob("*.yaml"))
    if not found:
        pytest.fail(
            "custom resource definitions are not there: let `.ci/tools FOLDER` fetch them and "
            f"{CRDS_VARIABLE} name FOLDER/crds"
        )
    return found


def image_base() -> Path:
    """The archive of the root file system of the Dockerfile's base image."""
    archive = os.environ.get(BASE_VARIABLE)
    if archive is None or not Path(archive).is_file():
        pytest.fail(
            "the base image's files are not there: let `.ci/tools FOLDER` make them and "
            f"{BASE_VARIABLE} name FOLDER/base/base.tar"
        )
    return Path(archive)


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program to its end; fails with its output if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}"
    return said
