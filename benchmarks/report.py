"""Format of benchmark results, and location of the data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True, slots=True)
class Line:
    """One measured number.

    Args:
        benchmark: Description of the measurement.
        value: The number; None if it could not be measured.
        unit: Its unit.
        baseline: The number of the baseline, measured in the same run.
        aim: The aimed ratio to the baseline, or value, in words; None without an aim.
        met: Whether the aim is met.
        note: Remarks.
    """

    benchmark: str
    value: float | None
    unit: str
    baseline: float | None = None
    aim: str | None = None
    met: bool | None = None
    note: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the line as printed."""
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
    """Return a file of the shared data, in JUDGESTREAM_DATA or `../shared/data`; None if missing."""
    path = Path(os.environ.get("JUDGESTREAM_DATA") or _DATA) / name
    return path if path.is_file() else None
