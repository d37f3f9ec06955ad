"""Links and names of the pages exist; folders and modules are bounded."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT

PAGE = ROOT / "ARCHITECTURE.md"
MAX_LINES = 250
_TEXT = PAGE.read_text(encoding="utf-8")
_NAMES = sorted(set(re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", _TEXT)))
_FOLDERS = sorted(set(re.findall(r"`((?:schemas|judge|streams|generate|tests)/[\w/]*)`", _TEXT)))


@pytest.mark.parametrize(("file", "name"), _NAMES, ids=str)
def test_every_name_exists(file: str, name: str) -> None:
    assert (ROOT / file).is_file()
    found: Any = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    for part in filter(None, name.split(".")):
        assert hasattr(found, part) or part in found.__annotations__
        found = getattr(found, part, None)


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


FOLDERS = (".", "docs", "helm", "benchmarks")
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links lead to files and headings; nothing is fetched."""
    links = _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    assert page.name != "README.md" or page.parent != ROOT or len(links) > 10
    for name, anchor in links:
        target = page.parent / name if name else page
        assert target.exists(), name
        if anchor:
            assert anchor in anchors(target), f"{name}#{anchor}"
