from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from judge.endpoints.options import EndpointState
from streams.worker.health import STUCK_AGENT_SECONDS, STUCK_LOOP_SECONDS, TOLD_FOR, Health
from tests.streams.worker.serving import idle_worker

LATE = STUCK_AGENT_SECONDS + 1


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
    worker = idle_worker(
        loop=lambda: loop,
        pipelines=[] if agent is None else [agent],
        judge_trouble=judge,
        broker_troubles=lambda: list(broker),
        spending=SimpleNamespace(deferring=deferred),
        endpoints=endpoints,
    )
    return Health(worker, now=lambda: now)


def test_an_unwell_endpoint_and_a_changed_model_are_notes() -> None:
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


@pytest.mark.parametrize(
    ("now", "parts", "alive"),
    [
        (STUCK_LOOP_SECONDS, {"loop": _Loop()}, True),
        (STUCK_LOOP_SECONDS + 5, {"loop": _Loop()}, False),
        # Before the first assignment a restart would not help.
        (10_000, {"loop": None}, True),
        (10_000, {"loop": _Loop(last_turn=None)}, True),
        (LATE, {"agent": _Agent()}, False),
        (LATE, {"agent": _Agent(in_hand=0)}, True),
        (LATE, {"agent": _Agent(), "judge": "connection refused"}, True),
        (LATE, {"agent": _Agent(), "broker": ["writing fails"]}, True),
        (LATE, {"agent": _Agent(), "deferred": "the budget is spent"}, True),
        (LATE, {"agent": _Agent(last_finished=STUCK_AGENT_SECONDS)}, True),
    ],
)
def test_alive_is_what_progresses_or_waits(now: float, parts: dict[str, Any], alive: bool) -> None:
    report = _health(now=now, **{"loop": _Loop(last_turn=now), **parts}).alive()
    assert report.ok is alive
    if not alive and "agent" not in parts:
        assert report.reasons == ("the delivery loop has not run for 65 s",)


@pytest.mark.parametrize(
    ("now", "parts", "reasons", "notes"),
    [
        (1, {}, (), ()),
        (
            1,
            {"loop": _Loop(assigned=False), "judge": "connection refused", "broker": ["writing fails"]},
            (
                "stopping",
                "no partitions assigned yet (joining or rebalancing)",
                "judge unavailable: connection refused",
                "writing fails",
            ),
            (),
        ),
        (1, {"deferred": "the budget is spent"}, (), ("the budget is spent",)),
        (112, {"loop": _Loop(coordinator_answered=100.0)}, (), ()),
        (
            113,
            {"loop": _Loop(coordinator_answered=100.0)},
            ("the broker is unavailable: the group coordinator has not answered for 13 s",),
            (),
        ),
        # In a rebalance a late response is no trouble.
        (
            40,
            {"loop": _Loop(assigned=False, coordinator_answered=0.0)},
            ("no partitions assigned yet (joining or rebalancing)",),
            (),
        ),
    ],
)
def test_readiness_names_every_reason(
    now: float, parts: dict[str, Any], reasons: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    health = _health(now=now, **{"loop": _Loop(), **parts})
    health.stopping = "stopping" in reasons
    report = health.ready()
    assert (report.ok, report.reasons, report.notes) == (not reasons, reasons, notes)
