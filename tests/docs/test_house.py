"""The number of modules in a folder and the length of modules are bounded."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.places import ROOT

MAX_ROOMS = 16
MAX_MODULE_LINES = 400
PACKAGES = ("schemas", "judge", "streams", "generate")


def _rooms(folder: Path) -> list[str]:
    return [
        path.name
        for path in folder.iterdir()
        if (path.suffix == ".py" and path.name != "__init__.py") or (path / "__init__.py").is_file()
    ]


LEVELS = sorted(
    {file.parent for package in PACKAGES for file in (ROOT / package).rglob("__init__.py")}, key=str
)
MODULES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("level", LEVELS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_folder_has_few_modules_and_a_docstring(level: Path) -> None:
    """A folder has at most 16 modules and a docstring."""
    assert len(_rooms(level)) <= MAX_ROOMS
    assert ast.get_docstring(ast.parse((level / "__init__.py").read_text(encoding="utf-8")))


def test_no_module_is_too_long() -> None:
    """A module has at most 400 lines."""
    long = {
        str(file.relative_to(ROOT)): lines
        for file in MODULES
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > MAX_MODULE_LINES
    }
    assert long == {}
