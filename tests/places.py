"""Where things are: the repository, its cache, and the real data beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SHARED_DATA: Final = ROOT.parent / "shared" / "data"
"""Real questions and answers with human labels; never part of the repository, so tests that read them name
what is missing."""
