from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.intake.reading.decode import JsonReader
from streams.intake.sampling import LabelsCondition, SamplingPolicy
from streams.intake.selector import Route, Selector
from tests.chaos.checker import MetricRule, Policy, Record, Report, Written, check, expected, result_id
from tests.chaos.feed import event

# Half of the events are sampled; "tone" judges all of app a, and no metric judges app b.
POLICY = Policy(rate=0.5, metrics={"tone": MetricRule(apps=frozenset({"a"}))})


def _event(event_id: str, app: str = "a") -> bytes:
    labels = {"app": app}
    return json.dumps({"event_id": event_id, "question": "q", "answer": "a", "labels": labels}).encode()


# First bytes of SHA-256 by sha256sum: k0 d1, e1 8b, e2 ac, e3 ce are at least 80, so kept at a rate of 0.5;
# k2 01 is below 80, so skipped.
KEPT, SKIPPED = ("k0", "e1", "e2", "e3"), "k2"


def _record(on: str, at: int, **fields: Any) -> Record:
    return Record(on, 0, at, json.dumps(fields).encode())


def _task(offset: int, event_id: str) -> Record:
    return _record("tasks", offset, event_id=event_id, metric="tone")


def _result(
    offset: int, event_id: str, *, own_id: str | None = None, status: str | None = "scored"
) -> Record:
    identity = own_id or result_id("events", event_id, "tone")
    return _record("scores", offset, event_id=event_id, metric="tone", status=status, result_id=identity)


def _again(topic: str, offset: int, event_id: str, *, own_id: str | None = None) -> Record:
    """The task of an answer that is judged again, or its result."""
    identity = own_id or result_id("events", event_id, "tone", "r")
    named = {"event_id": event_id, "metric": "tone", "replay_id": "r", "result_id": identity}
    return _record(topic, offset, **named, status="scored")


def _letter(offset: int, of: Record, reason: str) -> Record:
    value = None if of.value is None else base64.b64encode(of.value).decode()
    place = {"topic": of.topic, "partition": of.partition, "offset": of.offset}
    return _record("dead", offset, **place, reason=reason, value=value)


def _world() -> Written:
    """Four sampled events, one of them with a dead task; one skipped, one unroutable, one undecodable."""
    values = [*map(_event, KEPT), _event(SKIPPED), _event("k0", "b"), b"no JSON"]
    events = [Record("events", 0, offset, value) for offset, value in enumerate(values)]
    tasks = [_task(offset, event_id) for offset, event_id in enumerate(KEPT)]
    return Written(
        events=events,
        tasks={"tone": tasks},
        scores=[_result(offset, event_id) for offset, event_id in enumerate(KEPT[:3])],
        dead_letters=[
            _letter(0, tasks[3], "invalid_task"),
            _letter(1, events[5], "unroutable"),
            _letter(2, events[6], "undecodable"),
        ],
    )


def test_a_complete_account_has_no_problem() -> None:
    """Read: 7 = 1 undecodable + 1 unroutable + 1 skipped + 4 sampled; due: 4 = 3 results + 1 dead letter."""
    report = check(_world(), POLICY)
    assert report.problems == {}
    assert report.read == 7
    assert report.outcomes == {"undecodable": 1, "unroutable": 1, "skipped": 1, "sampled": 4}
    assert (report.due, report.results, report.dead_letters) == (4, 3, 1)
    assert (report.lost, report.duplicates) == (0, 0)


def test_duplicates_are_counted_and_allowed() -> None:
    world = _world()
    doubled = Written(
        events=world.events,
        tasks={"tone": [*world.tasks["tone"], _task(9, "e1")]},
        scores=[*world.scores, _result(8, "k0"), _result(9, "k0")],
        dead_letters=[*world.dead_letters, _letter(9, world.events[6], "undecodable")],
    )
    report = check(doubled, POLICY)
    assert report.problems == {}
    assert (report.duplicates, report.duplicate_tasks, report.duplicate_dead_letters) == (2, 1, 1)


def test_answers_judged_again_are_counted_apart() -> None:
    world = _world()
    tasks = [_again("tasks", offset, event_id) for offset, event_id in ((8, "k0"), (9, "e1"))]
    more = Written(
        events=world.events,
        tasks={"tone": [*world.tasks["tone"], *tasks]},
        scores=[*world.scores, _again("scores", 8, "k0")],
        dead_letters=[*world.dead_letters, _letter(9, tasks[1], "invalid_task")],
    )
    report = check(more, POLICY)
    assert report.problems == {}
    assert (report.due, report.results, report.dead_letters) == (4, 3, 1)
    assert (report.duplicates, report.duplicate_tasks, report.duplicate_dead_letters) == (0, 0, 0)


def test_an_event_sent_twice_is_judged_once() -> None:
    world = _world()
    again = Record("events", 0, 7, _event("k0"))
    report = check(replace(world, events=[*world.events, again]), POLICY)
    assert report.problems == {}
    assert (report.read, report.due) == (8, 4)


def test_an_event_without_a_value_is_set_aside_without_one() -> None:
    world = _world()
    tombstone = Record("events", 0, 7, None)
    letters = [*world.dead_letters, _letter(9, tombstone, "undecodable")]
    report = check(replace(world, events=[*world.events, tombstone], dead_letters=letters), POLICY)
    assert report.problems == {}


WORLD = _world()
TASKS, SCORES, LETTERS, EVENTS = WORLD.tasks["tone"], WORLD.scores, WORLD.dead_letters, WORLD.events
DEFECTS: dict[str, tuple[dict[str, Any], str, int]] = {
    "lost result": ({"scores": SCORES[1:]}, "without an outcome", 1),
    "second id": ({"scores": [*SCORES, _result(9, "k0", own_id="0" * 32)]}, "more than one result_id", 0),
    "wrong id": ({"scores": [_result(0, "k0", own_id="0" * 32), *SCORES[1:]]}, "result_id is not that", 0),
    "unknown event": ({"scores": [*SCORES, _result(9, "never-sent")]}, "result that is not due", 0),
    "skipped and judged": ({"scores": [*SCORES, _result(9, SKIPPED)]}, "result that is not due", 0),
    "no result": ({"scores": [*SCORES, Record("scores", 0, 9, b"rubbish")]}, "result that is not due", 0),
    "no status": ({"scores": [_result(0, "k0", status=None), *SCORES[1:]]}, "without a status", 0),
    "invented task": ({"tasks": {"tone": [*TASKS, _task(9, SKIPPED)]}}, "task that is not due", 0),
    "wrong topic": (
        {"tasks": {"tone": TASKS, "style": [_task(0, "k0")]}},
        "task on another metric's topic",
        0,
    ),
    "lost again": ({"tasks": {"tone": [*TASKS, _again("tasks", 9, "k0")]}}, "again without a result", 1),
    "invented again": ({"scores": [*SCORES, _again("scores", 9, "k0")]}, "again without a task", 0),
    "no task": ({"tasks": {"tone": TASKS[1:]}, "scores": SCORES[1:]}, "without an outcome", 1),
    "judged and dead": ({"scores": [*SCORES, _result(9, "e3")]}, "both judged and set aside", 0),
    "lost dead letter": ({"dead_letters": LETTERS[:2]}, "undecodable and not set aside", 1),
    "other reason": (
        {"dead_letters": [LETTERS[0], _letter(1, EVENTS[5], "undecodable"), LETTERS[2]]},
        "unroutable event set aside as undecodable",
        0,
    ),
    "good event": (
        {"dead_letters": [*LETTERS, _letter(9, EVENTS[0], "undecodable")]},
        "sampled event set aside",
        0,
    ),
    "skipped event": (
        {"dead_letters": [*LETTERS, _letter(9, EVENTS[4], "unroutable")]},
        "skipped event set aside",
        0,
    ),
    "no such event": (
        {"dead_letters": [*LETTERS, _letter(9, Record("events", 3, 99, b""), "undecodable")]},
        "does not exist",
        0,
    ),
    "other bytes": (
        {"dead_letters": [*LETTERS[:2], _letter(2, replace(EVENTS[6], value=b"other"), "undecodable")]},
        "other bytes",
        0,
    ),
    "no bytes": (
        {"dead_letters": [*LETTERS[:2], _letter(2, replace(EVENTS[6], value=None), "undecodable")]},
        "other bytes",
        0,
    ),
}


@pytest.mark.parametrize(("changes", "problem", "lost"), DEFECTS.values(), ids=DEFECTS.keys())
def test_each_defect_is_a_problem(changes: dict[str, Any], problem: str, lost: int) -> None:
    report = check(replace(WORLD, **changes), POLICY)
    assert any(problem in kind for kind in report.problems), report
    assert report.lost == lost


def test_a_report_names_each_kind_of_problem() -> None:
    report = Report(read=3)
    report.note("gone", range(7))
    assert str(report).splitlines()[1] == "gone: 7 (0, 1, 2, 3, 4, ...)"


@given(
    number=st.integers(0, 10**6),
    rate=st.sampled_from([0.0, 0.01, 0.5, 0.99, 1.0]),
    style=st.sampled_from([0.0, 0.3, 1.0]),
    free=st.sampled_from([None, 0.3, 1.0]),
)
def test_the_rule_is_the_published_one(number: int, rate: float, style: float, free: float | None) -> None:
    value = event(number, poison_every=10**9)
    policy = Policy(
        rate=rate,
        metrics={
            "tone": MetricRule(apps=frozenset({"shop", "help"})),
            "style": MetricRule(apps=frozenset({"shop"}), rate=style),
        }
        | ({} if free is None else {"words": MetricRule(frozenset({"help"}), free, of_all=True)}),
    )
    routes = [
        Route(name, (), LabelsCondition.of({"app": rule.apps}), rule.rate, rule.of_all)
        for name, rule in policy.metrics.items()
    ]
    decoded = JsonReader(max_event_bytes=10_000).decode(value)
    found = Selector(SamplingPolicy(default_rate=rate), routes, {}).select(decoded, b"key")
    outcome, metrics = expected(value, policy)
    if found.skipped in {"filtered", "not_sampled"}:
        assert (outcome, metrics) == ("skipped", frozenset())
    elif found.skipped == "unroutable":
        assert (outcome, metrics) == ("unroutable", frozenset())
    else:
        assert outcome == "sampled"
        assert metrics == set(found.assignments)
