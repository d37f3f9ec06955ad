"""A module that no process survives."""

from __future__ import annotations

import os


def score() -> float:
    return 1.0


os._exit(9)
