"""In every fault each event has exactly one outcome. Each fault is described at its function."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tests.chaos import alarm_faults, broker_faults, cluster_faults, judge_faults, worker_faults
from tests.chaos.arena import Fault
from tests.chaos.checker import Outcome, Report
from tests.chaos.programme import HEAD, Programme, aligned, keep, row_of


def _faults_of(module: ModuleType) -> list[Fault]:
    return [one for one in vars(module).values() if isinstance(one, Fault)]


FAULTS = [
    *_faults_of(worker_faults),
    *_faults_of(judge_faults),
    *_faults_of(broker_faults),
    *_faults_of(cluster_faults),
    *_faults_of(alarm_faults),
]


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("fault", [pytest.param(one, id=one.slug) for one in FAULTS])
async def test_nothing_is_lost_and_nothing_invented(fault: Fault, programme: Programme) -> None:
    """The checker finds no problem, and the fault's own assertions hold."""
    report = await programme.report(fault)
    assert report.lost == 0


def test_faults_have_names_of_their_own() -> None:
    """Names and slugs of faults are unique."""
    assert len({fault.slug for fault in FAULTS}) == len({fault.name for fault in FAULTS}) == len(FAULTS)


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
