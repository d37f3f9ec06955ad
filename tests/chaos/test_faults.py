"""In every fault each event has exactly one outcome. Each fault is described at its function."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.chaos import alarm_faults, broker_faults, cluster_faults, judge_faults, worker_faults
from tests.chaos.fault import Fault
from tests.chaos.programme import Programme


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
