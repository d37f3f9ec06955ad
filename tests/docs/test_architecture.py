"""ARCHITECTURE.md is short, and every name in it exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.places import ROOT

PAGE = ROOT / "ARCHITECTURE.md"
MAX_LINES = 250
_TEXT = PAGE.read_text(encoding="utf-8")
_NAMES = sorted(set(re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", _TEXT)))
_FOLDERS = sorted(set(re.findall(r"`((?:schemas|judge|streams|generate|tests)/[\w/]*)`", _TEXT)))


def _defined(tree: ast.Module, name: str) -> bool:
    body: list[ast.stmt] = tree.body
    for part in name.split("."):
        found = next((node for node in body if part in _names_of(node)), None)
        if found is None:
            return False
        body = getattr(found, "body", [])
    return True


def _names_of(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize(("file", "name"), _NAMES, ids=str)
def test_every_name_exists(file: str, name: str) -> None:
    """Every file exists and defines the name."""
    path = ROOT / file
    assert path.is_file()
    if name:
        assert _defined(ast.parse(path.read_text(encoding="utf-8")), name)


@pytest.mark.parametrize("folder", _FOLDERS)
def test_every_folder_exists(folder: str) -> None:
    """Every folder exists."""
    assert (ROOT / folder).exists()


def test_the_page_can_be_read_in_one_go() -> None:
    """The page has at most MAX_LINES lines, and names to check."""
    assert len(_TEXT.splitlines()) <= MAX_LINES
    assert len(_NAMES) > 20
