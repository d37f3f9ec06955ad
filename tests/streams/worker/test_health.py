from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from judge.endpoints.options import EndpointState
from streams.worker.health import STUCK_AGENT_SECONDS, STUCK_LOOP_SECONDS, TOLD_FOR, Health


@dataclass
class _Loop:
    last_turn: float | None = 0.0
    assigned: bool = True
    coordinator_answered: float | None = None


@dataclass
class _Agent:
    name: str = "judge-tone"
    in_hand: int = 1
    last_finished: float = 0.0


def _health(
    *,
    now: float,
    loop: _Loop | None = None,
    agent: _Agent | None = None,
    judge: str | None = None,
    broker: Sequence[str] = (),
    deferred: str | None = None,
    endpoints: Sequence[EndpointState] = (),
) -> Health:
    return Health(
        loop=lambda: loop,
        agents=[] if agent is None else [agent],  # type: ignore[list-item]
        judge_trouble=lambda: judge,
        broker_trouble=lambda: broker,
        deferred=lambda: deferred,
        endpoints=lambda: endpoints,
        now=lambda: now,
    )


def test_an_unwell_endpoint_and_a_changed_model_are_notes() -> None:
    """An endpoint that fails over a tenth of its events and a changed model leave the worker ready."""
    moment = datetime.now(UTC)
    changed = EndpointState("moved", up=True, model="m-2", earlier_model="m-1", model_changed_at=moment)
    endpoints = [
        EndpointState("well", up=True, failed_share=0.1, model="m"),
        EndpointState("unwell", up=True, failed_share=0.5, model="m"),
        changed,
        replace(changed, name="old", model_changed_at=moment - 2 * TOLD_FOR),
    ]
    report = _health(now=10, loop=_Loop(last_turn=10), endpoints=endpoints).ready()
    assert report.ok
    unwell, moved = report.notes
    assert unwell == (
        "judge endpoint unwell fails 50% of its events at the first try; one of its replicas may be broken"
    )
    assert moved.startswith(f"judge endpoint moved: m-2 answers instead of m-1 since {moment:%F %H:%M} UTC; ")


def test_a_running_loop_is_alive() -> None:
    """A loop that has not run for longer than STUCK_LOOP_SECONDS is not alive."""
    assert _health(now=STUCK_LOOP_SECONDS, loop=_Loop()).alive().ok
    report = _health(now=STUCK_LOOP_SECONDS + 5, loop=_Loop()).alive()
    assert report.reasons == ("the delivery loop has not run for 65 s",)


@pytest.mark.parametrize("loop", [None, _Loop(last_turn=None)])
def test_a_worker_that_waits_for_its_group_is_alive(loop: _Loop | None) -> None:
    """A worker is alive before its first assignment, because a restart would not help."""
    assert _health(now=10_000, loop=loop).alive().ok


@pytest.mark.parametrize(
    ("agent", "trouble", "alive"),
    [
        (_Agent(), {}, False),
        (_Agent(in_hand=0), {}, True),
        (_Agent(), {"judge": "connection refused"}, True),
        (_Agent(), {"broker": ["writing fails"]}, True),
        (_Agent(last_finished=STUCK_AGENT_SECONDS), {}, True),
    ],
    ids=["stuck", "idle", "waiting for the judge", "waiting for the broker", "at work"],
)
def test_an_agent_that_finishes_nothing_is_stuck(agent: _Agent, trouble: dict[str, Any], alive: bool) -> None:
    """An agent is stuck if it has records in flight, finishes none, and waits for no judge or broker."""
    now = STUCK_AGENT_SECONDS + 1
    assert _health(now=now, loop=_Loop(last_turn=now), agent=agent, **trouble).alive().ok is alive


def test_readiness_names_every_reason() -> None:
    """Readiness lists all reasons; without one the worker is ready."""
    assert _health(now=1, loop=_Loop()).ready().ok
    health = _health(now=1, loop=_Loop(assigned=False), judge="connection refused", broker=["writing fails"])
    health.stopping = True
    report = health.ready()
    assert not report.ok
    text = "; ".join(report.reasons)
    judge = "judge unavailable: connection refused"
    for part in ("stopping", "no partitions assigned", judge, "writing fails"):
        assert part in text


def test_a_spent_budget_is_a_note() -> None:
    """A worker with a spent budget is alive and ready, with a note."""
    now = STUCK_AGENT_SECONDS + 1
    health = _health(now=now, loop=_Loop(last_turn=now), agent=_Agent(), deferred="the budget is spent")
    assert health.alive().ok
    report = health.ready()
    assert report.ok
    assert (report.reasons, report.notes) == ((), ("the budget is spent",))


def test_an_unresponsive_broker_makes_the_worker_unready() -> None:
    """A worker is not ready, but alive, 13 s after the coordinator's last response."""
    loop = _Loop(last_turn=113.0, coordinator_answered=100.0)
    assert _health(now=112.0, loop=loop).ready().ok
    health = _health(now=113.0, loop=loop)
    assert health.ready().reasons == (
        "the broker is unavailable: the group coordinator has not answered for 13 s",
    )
    assert health.alive().ok


def test_a_rebalance_is_named_as_the_reason() -> None:
    """During a rebalance a late response of the coordinator is no trouble."""
    loop = _Loop(assigned=False, coordinator_answered=0.0)
    assert _health(now=40.0, loop=loop).ready().reasons == (
        "no partitions assigned yet (joining or rebalancing)",
    )
