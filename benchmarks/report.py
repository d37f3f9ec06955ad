"""The one form of a benchmark's result, and where its data is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True, slots=True)
class Line:
    """One measured number.

    Args:
        benchmark: What was measured.
        value: The number; None where it could not be measured.
        unit: Its unit.
        baseline: The same for what it is compared with, measured in the same run.
        aim: The ratio to the baseline, or the value, that is aimed at, in words; None where nothing is aimed
            at.
        met: Whether the aim is met.
        note: What a reader must know.
    """

    benchmark: str
    value: float | None
    unit: str
    baseline: float | None = None
    aim: str | None = None
    met: bool | None = None
    note: str | None = None

    def as_json(self) -> dict[str, object]:
        """As it is printed."""
        ratio = None if self.value is None or not self.baseline else round(self.value / self.baseline, 3)
        return {
            "benchmark": self.benchmark,
            "value": self.value,
            "unit": self.unit,
            "baseline": self.baseline,
            "ratio": ratio,
            "aim": self.aim,
            "met": self.met,
            "note": self.note,
        }


def data_file(name: str) -> Path | None:
    """A file of the shared data: from the folder that JUDGESTREAM_DATA names, else from `../shared/data`.

    None if absent.
    """
    path = Path(os.environ.get("JUDGESTREAM_DATA") or _DATA) / name
    return path if path.is_file() else None
