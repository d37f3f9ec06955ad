from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.chaos.checker import Outcome, Report
from tests.chaos.table import HEAD, aligned, keep, row_of


def test_a_fault_that_is_run_again_replaces_its_row(tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    outcomes = Counter[Outcome]({"undecodable": 2, "unroutable": 1})
    report = Report(read=2_000, outcomes=outcomes, results=1_354, dead_letters=2, duplicates=7, lost=0)
    keep(file, row_of("judge hangs", None, 0, 9.6))
    keep(file, row_of("none", report, 21, 77.4))
    keep(file, row_of("judge hangs", report, 44, 88.2))

    # Set aside: 2 due pairs, 2 undecodable, 1 unroutable.
    assert file.read_text().splitlines()[2:] == [
        "| judge hangs | 2,000 | 1,354 | 5 | 7 | 0 | 0 | 0 | 44 | 88 |",
        "| none | 2,000 | 1,354 | 5 | 7 | 0 | 0 | 0 | 21 | 77 |",
    ]


def test_a_fault_that_broke_off_is_in_the_table() -> None:
    row = row_of("judge hangs", None, 0, 9.6)
    assert len(row) == len(HEAD)
    assert aligned([row])[1].split() == ["judge", "hangs", "broke", "off", "10"]
