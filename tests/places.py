"""Paths of the repository and of the shared data, and what the pages show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SHARED_DATA: Final = ROOT.parent / "shared" / "data"
"""Real questions and answers with human labels, not part of the repository; tests that read them name
missing files."""


def blocks(page: str | Path, language: str, *, after: str = "") -> list[str]:
    """The blocks of a page in a language, or those right after a mark."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = rf"{re.escape(after)}\s*^```{language}\n(.*?)^```"
    return re.findall(found, text, re.DOTALL | re.MULTILINE)
