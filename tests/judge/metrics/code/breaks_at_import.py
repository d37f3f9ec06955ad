"""A module whose import ends the process."""

from __future__ import annotations

import os


def score() -> float:
    return 1.0


os._exit(9)
