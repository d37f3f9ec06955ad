from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

from tests.places import ROOT

MAX_PAGE_LINES = 250
MAX_ROOMS = 16
MAX_MODULE_LINES = 400
PACKAGES = ("schemas", "judge", "streams", "generate")
_TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def _is_defined(file: str, name: str) -> bool:
    found: Any = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    for part in filter(None, name.split(".")):
        if not (hasattr(found, part) or part in found.__annotations__):
            return False
        found = getattr(found, part, None)
    return True


def test_the_page_names_what_exists_and_can_be_read_in_one_go() -> None:
    folders = set(re.findall(r"`((?:schemas|judge|streams|generate|tests)/[\w/]*)`", _TEXT))
    names = set(re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", _TEXT))
    assert [folder for folder in folders if not (ROOT / folder).exists()] == []
    assert [name for name in names if not (ROOT / name[0]).is_file() or not _is_defined(*name)] == []
    assert len(names) > 20
    assert len(_TEXT.splitlines()) <= MAX_PAGE_LINES


def test_a_folder_has_few_modules_and_a_docstring() -> None:
    levels = [file.parent for package in PACKAGES for file in (ROOT / package).rglob("__init__.py")]
    for level in levels:
        modules, rooms = [*level.glob("*.py")], [*level.glob("*/__init__.py")]
        assert len(modules) - 1 + len(rooms) <= MAX_ROOMS, level
        assert ast.get_docstring(ast.parse((level / "__init__.py").read_text(encoding="utf-8"))), level


def test_no_module_is_too_long() -> None:
    modules = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in modules}
    assert {file for file, lines in lengths.items() if lines > MAX_MODULE_LINES} == set()


FOLDERS = (".", "docs", "helm", "benchmarks")
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)")


def anchors(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    links = [
        (page, page.parent / name if name else page, anchor)
        for page in PAGES
        for name, anchor in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    ]
    assert len(links) > 100
    assert [link for link in links if not link[1].exists()] == []
    assert [link for link in links if link[2] and link[2] not in anchors(link[1])] == []
