"""Run contestants, each in its own process, so that they do not affect each other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_DEADLINE_SECONDS = 120.0


class ContestantError(Exception):
    """A contestant failed; the message has the end of its output."""


@dataclass(frozen=True, slots=True)
class Run:
    """Measurements of one run, from its first records to the last.

    Args:
        records: Number of records.
        seconds: Wall-clock time.
        cpu_seconds: CPU time of the process, all threads.
        more: Further measurements.
    """

    records: int
    seconds: float
    cpu_seconds: float
    more: Mapping[str, Any]

    @property
    def rate(self) -> float:
        """Records per second of wall-clock time."""
        return self.records / self.seconds

    @property
    def cpu_microseconds(self) -> float:
        """CPU time per record."""
        return self.cpu_seconds / self.records * 1e6


def run_contestant(
    name: str, plan: Mapping[str, Any], *, python: str | None = None, root: Path = ROOT
) -> Run:
    """Run `benchmarks/contestants/<name>.py` with a plan, and return its measurements.

    Args:
        name: The contestant.
        plan: Its argument.
        python: The interpreter; default: this one, or that in the `.venv` of another `root`.
        root: The checkout to run.

    Raises:
        ContestantError: It failed, timed out, or printed no measurements.
    """
    own = sys.executable if root == ROOT else str(root / ".venv/bin/python")
    command = [python or own, "-m", f"benchmarks.contestants.{name}", json.dumps(plan)]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ContestantError(f"{name} was not done after {_DEADLINE_SECONDS:.0f} s") from error
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"records"')]
    if not lines:
        raise ContestantError(f"{name} ended with status {done.returncode}: {done.stderr[-2000:]}")
    told = json.loads(lines[-1])
    return Run(told.pop("records"), told.pop("seconds"), told.pop("cpu_seconds"), told)


def fastest(runs: Sequence[Run]) -> Run:
    """Return the run with the highest rate, because other load can only slow a run down."""
    return max(runs, key=lambda run: run.rate)


def leanest(runs: Sequence[Run]) -> Run:
    """Return the run with the least CPU time per record, for the same reason."""
    return min(runs, key=lambda run: run.cpu_microseconds)
