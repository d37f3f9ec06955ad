from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from judge.endpoints.options import EndpointState
from streams.telemetry.instruments import Metrics
from streams.worker.server import STUCK_AGENT_SECONDS, STUCK_LOOP_SECONDS, TOLD_FOR, Health
from streams.worker.status import LONGEST_STEP_SECONDS, MAX_POINTS, STEP_SECONDS, History, Point, totals_of
from tests.streams.worker.serving import idle_worker

LATE = STUCK_AGENT_SECONDS + 1
JOINING = "no partitions assigned yet (joining or rebalancing)"


def _loop(**parts: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"last_turn": 0.0, "assigned": True, "coordinator_answered": None} | parts)


def _agent(**parts: Any) -> SimpleNamespace:
    idle = {"name": "judge-tone", "in_hand": 1, "last_finished": 0.0, "patience_seconds": 0.0}
    return SimpleNamespace(**idle | parts)


def _health(
    *, now: float, loop: Any = None, agent: Any = None, broker: Sequence[str] = (), **parts: Any
) -> Health:
    worker = idle_worker(
        loop=lambda: loop,
        pipelines=[] if agent is None else [agent],
        judge_trouble=parts.pop("judge", None),
        broker_troubles=lambda: list(broker),
        spending=SimpleNamespace(deferring=parts.pop("deferred", None)),
        **parts,
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
    report = _health(now=10, loop=_loop(last_turn=10), endpoints=endpoints).ready()
    assert report.ok
    unwell, moved = report.notes
    assert unwell == (
        "judge endpoint unwell fails 50% of its events at the first try; one of its replicas may be broken"
    )
    assert moved.startswith(f"judge endpoint moved: m-2 answers instead of m-1 since {moment:%F %H:%M} UTC; ")


@pytest.mark.parametrize(
    ("now", "parts", "alive"),
    [
        (STUCK_LOOP_SECONDS, {"loop": _loop()}, True),
        (STUCK_LOOP_SECONDS + 5, {"loop": _loop()}, False),
        # Before the first assignment a restart would not help.
        (10_000, {"loop": None}, True),
        (10_000, {"loop": _loop(last_turn=None)}, True),
        (LATE, {"agent": _agent()}, False),
        (LATE, {"agent": _agent(in_hand=0)}, True),
        (LATE, {"agent": _agent(patience_seconds=2)}, True),
        (LATE + 2, {"agent": _agent(patience_seconds=2)}, False),
        (LATE, {"agent": _agent(), "judge": "connection refused"}, True),
        (LATE, {"agent": _agent(), "broker": ["writing fails"]}, True),
        (LATE, {"agent": _agent(), "deferred": "the budget is spent"}, True),
        (LATE, {"agent": _agent(last_finished=STUCK_AGENT_SECONDS)}, True),
    ],
)
def test_alive_is_what_progresses_or_waits(now: float, parts: dict[str, Any], alive: bool) -> None:
    report = _health(now=now, **{"loop": _loop(last_turn=now), **parts}).alive()
    assert report.ok is alive
    if not alive and "agent" not in parts:
        assert report.reasons == ("the delivery loop has not run for 65 s",)


@pytest.mark.parametrize(
    ("now", "parts", "reasons", "notes"),
    [
        (1, {}, (), ()),
        (
            1,
            {"loop": _loop(assigned=False), "judge": "connection refused", "broker": ["writing fails"]},
            ("stopping", JOINING, "judge unavailable: connection refused", "writing fails"),
            (),
        ),
        (1, {"deferred": "the budget is spent"}, (), ("the budget is spent",)),
        (112, {"loop": _loop(coordinator_answered=100.0)}, (), ()),
        (
            113,
            {"loop": _loop(coordinator_answered=100.0)},
            ("the broker is unavailable: the group coordinator has not answered for 13 s",),
            (),
        ),
        # In a rebalance a late response is no trouble.
        (40, {"loop": _loop(assigned=False, coordinator_answered=0.0)}, (JOINING,), ()),
    ],
)
def test_readiness_names_every_reason(
    now: float, parts: dict[str, Any], reasons: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    health = _health(now=now, **{"loop": _loop(), **parts})
    health.stopping = "stopping" in reasons
    report = health.ready()
    assert (report.ok, report.reasons, report.notes) == (not reasons, reasons, notes)


def _point(at: float) -> Point:
    return Point(at=at, events={"sampled": int(at)}, lag=1, lines={"relevance f": (4.0, 3.0, 5.0)})


def test_points_come_at_even_distances() -> None:
    history = History()
    history.add(Point(at=98.0, events={}, lag=0))
    for at in (100.0, 100.5, 102.0, 103.0, 104.0):
        history.add(_point(at))
    assert history.as_values() == {
        "step": 2.0,
        "at": [98.0, 100.0, 102.0, 104.0],
        "lag": [0, 1, 1, 1],
        "events": {"sampled": [0, 100, 102, 104]},
        "lines": {"relevance f": [None, *[(4.0, 3.0, 5.0)] * 3]},  # a gap before it begins
    }


@example(10_000)
@given(st.integers(min_value=1, max_value=6 * MAX_POINTS))
def test_it_stays_small_and_keeps_the_newest(count: int) -> None:
    """A long run covers more than an hour."""
    history = History()
    for number in range(count):
        history.add(_point(number * STEP_SECONDS))
    at = history.as_values()["at"]
    assert len(at) <= MAX_POINTS
    assert (count - 1) * STEP_SECONDS - at[-1] < history.step_seconds
    assert len({b - a for a, b in pairwise(at)}) <= 1
    assert history.step_seconds <= LONGEST_STEP_SECONDS
    assert count < 10_000 or at[-1] - at[0] == (MAX_POINTS - 1) * LONGEST_STEP_SECONDS > 3600


def test_totals_add_up_over_labels_and_outcomes() -> None:
    """Without results they are empty, not 0.

    19 calls of 0.3 s and one failed of 3 s: mean 8.7 / 20 = 0.435 s, 95% in the bucket up to 0.5 s. A call
    longer than 120 s, the last bucket, has no known bound.
    """
    metrics = Metrics(CollectorRegistry())
    names = ("results", "scores", "dead_letters", "corrections", "suspicions")
    assert totals_of(metrics.registry.collect()) == {name: {} for name in names} | {"judges": []}
    for _ in range(19):
        metrics.observe_call("primary", "m", "scored", 0.3)
    metrics.observe_call("primary", "m", "reply_cut", 3.0)
    metrics.observe_call("spare", "m", "scored", 500.0)
    metrics.count("judgestream_dead_letters_total", "undecodable")
    totals = totals_of(metrics.registry.collect())
    primary, spare = totals["judges"]
    assert [primary[name] for name in ("endpoint", "model", "calls", "failed")] == ["primary", "m", 20, 1]
    assert round(primary["mean_seconds"], 6) == 0.435
    assert (primary["p95_below_seconds"], spare["p95_below_seconds"]) == (0.5, None)
    assert primary["cost_usd"] is None
    assert totals["dead_letters"] == {"undecodable": 1}
