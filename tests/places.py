"""Paths of the repository and of the shared data."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SHARED_DATA: Final = ROOT.parent / "shared" / "data"
"""Real questions and answers with human labels, not part of the repository; tests that read them name
missing files."""
