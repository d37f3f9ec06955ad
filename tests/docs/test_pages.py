"""Links and names of the pages exist; folders and modules are bounded."""

from __future__ import annotations

import ast
import re
from pathlib import Path

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
    path = ROOT / file
    assert path.is_file()
    if name:
        assert _defined(ast.parse(path.read_text(encoding="utf-8")), name)


@pytest.mark.parametrize("folder", _FOLDERS)
def test_every_folder_exists(folder: str) -> None:
    assert (ROOT / folder).exists()


def test_the_page_can_be_read_in_one_go() -> None:
    """The page has at most MAX_LINES lines, and names to check."""
    assert len(_TEXT.splitlines()) <= MAX_LINES
    assert len(_NAMES) > 20


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


PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        ROOT / "helm" / "README.md",
        ROOT / "benchmarks" / "README.md",
    ]
)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_there_are_links_to_check() -> None:
    assert len(_LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links lead to files and headings; nothing is fetched."""
    for name, anchor in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = page.parent / name if name else page
        assert target.exists(), name
        if anchor:
            assert anchor in anchors(target), f"{name}#{anchor}"
