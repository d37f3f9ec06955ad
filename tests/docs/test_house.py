"""The house: rooms a level, and the length of modules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.places import ROOT

MAX_ROOMS = 15
PACKAGES = ("schemas", "judge", "streams", "generate")


def _rooms(folder: Path) -> list[str]:
    return [
        path.name
        for path in folder.iterdir()
        if (path.suffix == ".py" and path.name != "__init__.py") or (path / "__init__.py").is_file()
    ]


LEVELS = sorted(
    {file.parent for package in PACKAGES for file in (ROOT / package).rglob("__init__.py")},
    key=str,
)


@pytest.mark.parametrize("level", LEVELS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_level_holds_at_most_fifteen_rooms_and_says_what_belongs_there(level: Path) -> None:
    """So that a reader finds a thing by its way, not by searching."""
    assert len(_rooms(level)) <= MAX_ROOMS
    assert ast.get_docstring(ast.parse((level / "__init__.py").read_text(encoding="utf-8")))
