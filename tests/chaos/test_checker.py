"""The checker itself: it passes what is right and fails on each thing that can be wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.intake.reading import Ingest
from streams.intake.routing import EventCondition, Route, route
from streams.intake.sampling import LabelsCondition, SamplingPolicy
from tests.chaos.checker import MetricRule, Policy, Record, Report, Written, check, expected, result_id
from tests.chaos.feed import event

# Half of the events are sampled; of those of app a "tone" judges all, and nothing judges app b.
POLICY = Policy(rate=0.5, metrics={"tone": MetricRule(apps=frozenset({"a"}))})


def _event(event_id: str, app: str = "a") -> bytes:
    labels = {"app": app}
    return json.dumps({"event_id": event_id, "question": "q", "answer": "a", "labels": labels}).encode()


# First bytes of SHA-256, from sha256sum: k0 d1, e1 8b, e2 ac, e3 ce, all at least 80, so all are kept at a
# rate of 0.5; k2 01, below 80, is skipped.
KEPT, SKIPPED = ("k0", "e1", "e2", "e3"), "k2"


def _record(on: str, at: int, **fields: Any) -> Record:
    return Record(on, 0, at, json.dumps(fields).encode())


def _task(offset: int, event_id: str) -> Record:
    return _record("tasks", offset, event_id=event_id, metric="tone")


def _result(offset: int, event_id: str, *, own_id: str | None = None) -> Record:
    identity = own_id or result_id("events", event_id, "tone")
    return _record("scores", offset, event_id=event_id, metric="tone", status="scored", result_id=identity)


def _letter(offset: int, of: Record, reason: str) -> Record:
    value = None if of.value is None else base64.b64encode(of.value).decode()
    place = {"topic": of.topic, "partition": of.partition, "offset": of.offset}
    return _record("dead", offset, **place, reason=reason, value=value)


def _world() -> Written:
    """Four events to be judged, of which one task was set aside.

    One skipped, one unroutable, one that is none.
    """
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


def test_what_is_right_passes() -> None:
    """Read: 7 = 1 undecodable + 1 unroutable + 1 skipped + 4 sampled; due 4 = 3 results + 1 dead letter."""
    report = check(_world(), POLICY)
    assert report.problems == {}
    assert report.read == 7
    assert report.outcomes == {"undecodable": 1, "unroutable": 1, "skipped": 1, "sampled": 4}
    assert (report.due, report.results, report.dead_letters) == (4, 3, 1)
    assert (report.lost, report.duplicates) == (0, 0)


def test_duplicates_are_counted_and_allowed() -> None:
    """One result three times, one task and one dead letter twice: 2, 1 and 1
    duplicates, and nothing wrong.
    """
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


def test_an_event_sent_twice_is_judged_once() -> None:
    """Two records with one event id ask for one result."""
    world = _world()
    again = Record("events", 0, 7, _event("k0"))
    report = check(replace(world, events=[*world.events, again]), POLICY)
    assert report.problems == {}
    assert (report.read, report.due) == (8, 4)


def test_an_event_without_a_value_is_set_aside_without_one() -> None:
    """A tombstone is not an event, and its dead letter has null where the others have bytes."""
    world = _world()
    tombstone = Record("events", 0, 7, None)
    letters = [*world.dead_letters, _letter(9, tombstone, "undecodable")]
    report = check(replace(world, events=[*world.events, tombstone], dead_letters=letters), POLICY)
    assert report.problems == {}


def _without_result(world: Written) -> Written:
    return replace(world, scores=world.scores[1:])


def _doubled_under_another_id(world: Written) -> Written:
    return replace(world, scores=[*world.scores, _result(9, "k0", own_id="0" * 32)])


def _under_another_id(world: Written) -> Written:
    return replace(world, scores=[_result(0, "k0", own_id="0" * 32), *world.scores[1:]])


def _invented(world: Written) -> Written:
    return replace(world, scores=[*world.scores, _result(9, "never-sent")])


def _judged_although_skipped(world: Written) -> Written:
    return replace(world, scores=[*world.scores, _result(9, SKIPPED)])


def _rubbish_among_results(world: Written) -> Written:
    return replace(world, scores=[*world.scores, Record("scores", 0, 9, b"rubbish")])


def _without_status(world: Written) -> Written:
    identity = result_id("events", "k0", "tone")
    bare = _record("scores", 0, event_id="k0", metric="tone", result_id=identity)
    return replace(world, scores=[bare, *world.scores[1:]])


def _invented_task(world: Written) -> Written:
    return replace(world, tasks={"tone": [*world.tasks["tone"], _task(9, SKIPPED)]})


def _task_of_another_metric(world: Written) -> Written:
    return replace(world, tasks={**world.tasks, "style": [_task(0, "k0")]})


def _event_without_any_trace(world: Written) -> Written:
    return replace(world, tasks={"tone": world.tasks["tone"][1:]}, scores=world.scores[1:])


def _judged_and_set_aside(world: Written) -> Written:
    return replace(world, scores=[*world.scores, _result(9, "e3")])


def _without_dead_letter(world: Written) -> Written:
    return replace(world, dead_letters=world.dead_letters[:2])


def _dead_letter_for_another_reason(world: Written) -> Written:
    wrong = _letter(1, world.events[5], "undecodable")
    return replace(world, dead_letters=[world.dead_letters[0], wrong, world.dead_letters[2]])


def _good_event_set_aside(world: Written) -> Written:
    return replace(world, dead_letters=[*world.dead_letters, _letter(9, world.events[0], "undecodable")])


def _skipped_event_set_aside(world: Written) -> Written:
    return replace(world, dead_letters=[*world.dead_letters, _letter(9, world.events[4], "unroutable")])


def _dead_letter_of_nothing(world: Written) -> Written:
    nowhere = Record("events", 3, 99, b"")
    return replace(world, dead_letters=[*world.dead_letters, _letter(9, nowhere, "undecodable")])


def _dead_letter_with_other_bytes(world: Written) -> Written:
    changed = _letter(2, replace(world.events[6], value=b"other"), "undecodable")
    return replace(world, dead_letters=[*world.dead_letters[:2], changed])


def _dead_letter_without_bytes(world: Written) -> Written:
    bare = _letter(2, replace(world.events[6], value=None), "undecodable")
    return replace(world, dead_letters=[*world.dead_letters[:2], bare])


@pytest.mark.parametrize(
    ("spoil", "problem", "lost"),
    [
        (_without_result, "without an outcome", 1),
        (_doubled_under_another_id, "more than one result_id", 0),
        (_under_another_id, "result_id is not that", 0),
        (_invented, "result that nobody asked for", 0),
        (_judged_although_skipped, "result that nobody asked for", 0),
        (_rubbish_among_results, "result that nobody asked for", 0),
        (_without_status, "without a status", 0),
        (_invented_task, "task that nobody asked for", 0),
        (_task_of_another_metric, "task on another metric's topic", 0),
        (_event_without_any_trace, "without an outcome", 1),
        (_judged_and_set_aside, "both judged and set aside", 0),
        (_without_dead_letter, "undecodable and not set aside", 1),
        (_dead_letter_for_another_reason, "unroutable event set aside as undecodable", 0),
        (_good_event_set_aside, "sampled event set aside", 0),
        (_skipped_event_set_aside, "skipped event set aside", 0),
        (_dead_letter_of_nothing, "does not exist", 0),
        (_dead_letter_with_other_bytes, "other bytes", 0),
        (_dead_letter_without_bytes, "other bytes", 0),
    ],
)
def test_what_is_wrong_fails(spoil: Callable[[Written], Written], problem: str, lost: int) -> None:
    """Each way to spoil the topics is named, and what has no outcome is counted as lost."""
    report = check(spoil(_world()), POLICY)
    assert any(problem in kind for kind in report.problems), report
    assert report.lost == lost


def test_a_report_names_what_is_wrong() -> None:
    """Counts first, then each kind of problem with its first few examples and their number."""
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
    """The checker's own words of the sampling rule and the service's come to the same, event by event."""
    value = event(number, poison_every=10**9)
    policy = Policy(
        rate=rate,
        metrics={
            "tone": MetricRule(apps=frozenset({"shop", "help"})),
            "style": MetricRule(apps=frozenset({"shop"}), rate=style),
        }
        | ({} if free is None else {"words": MetricRule(frozenset({"help"}), free, of_all=True)}),
    )
    conditions = {
        name: EventCondition(labels=LabelsCondition.of({"app": rule.apps}))
        for name, rule in policy.metrics.items()
    }
    routes = [Route(name, conditions[name], rule.rate, rule.of_all) for name, rule in policy.metrics.items()]
    decoded = Ingest(max_event_bytes=10_000).decode(value)
    decision = SamplingPolicy(default_rate=rate).decide_event(decoded, b"key")
    routing = route(decoded, decision, [one for one in routes if decision.keep or one.of_all])
    outcome, metrics = expected(value, policy)
    if not routing.assignments and (not decision.keep or routing.not_sampled):
        assert (outcome, metrics) == ("skipped", frozenset())
    elif routing.unroutable:
        assert (outcome, metrics) == ("unroutable", frozenset())
    else:
        assert outcome == "sampled"
        assert metrics == {one.metric for one in routing.assignments}
