"""Links between pages lead to existing files and headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.places import ROOT

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
    """The expression finds links."""
    assert len(_LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links lead to files and headings; nothing is fetched."""
    for name, anchor in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = page.parent / name if name else page
        assert target.exists(), name
        if anchor:
            assert anchor in anchors(target), f"{name}#{anchor}"
