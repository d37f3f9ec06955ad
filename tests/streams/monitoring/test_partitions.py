"""Several workers give the alerts of one monitor that reads all observations in order."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from judge.errors import DrainingError
from schemas import Alert, Anchor, JudgeTask, Sampling, Scored, Source
from streams.errors import StreamsError, TooLargeError
from streams.kafka.record import Record
from streams.monitoring import config, series, watch
from streams.monitoring import partitions as module
from streams.monitoring.anchors import Enrolment
from streams.monitoring.monitor import Monitor
from streams.monitoring.observations import forward
from streams.monitoring.partitions import PartitionMonitors
from streams.monitoring.statistics import baseline, detectors, estimators, strata
from tests.streams.monitoring.broker import CONFIG, OBSERVATIONS, SCORES, STATES, TASKS, Broker, monitors
from tests.streams.results import at, scored, task_of


def results(random: Random) -> list[Scored]:
    """Return good results with a fall of one app in between: all is over by 610."""
    out = []
    for number in range(640):
        app = "ab"[number % 2]
        bad = 300 <= number < 500 and app == "a"
        out.append(scored(number, random.choice([1, 2] if bad else [4, 5, 5]), labels={"app": app}))
    return out


async def observed(seed: int, *, count: int = 640) -> Broker:
    broker = Broker()
    for result in results(Random(seed))[:count]:
        await broker.observation(result)
    return broker


async def handle(worker: PartitionMonitors, records: Iterable[Record]) -> None:
    for record in records:
        await worker.handle(record)


def observe(results: Iterable[Scored]) -> list[Alert]:
    alone = Monitor(CONFIG)
    return [alert for result in results for alert in alone.observe(result, result.times.judged_at)]


def undisturbed(broker: Broker) -> list[Alert]:
    """Return the alerts of one monitor that reads all observations in order."""
    return observe(Scored.model_validate_json(record.value or b"") for record in broker.logs[OBSERVATIONS])


def counts(worker: PartitionMonitors) -> list[int]:
    """Return the scored results of each series."""
    return [one.statuses["scored"] for one in worker.snapshot(at(0)).series]


@pytest.mark.parametrize("seed", range(6))
async def test_killed_at_any_point_the_alerts_are_those_of_one_monitor(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kills between any writes, each next worker continues at or before the committed offset."""
    monkeypatch.setattr(module, "SAVE_OBSERVATIONS", 100)
    random, broker = Random(seed), await observed(seed)
    # Some results are repeated, as after the kill of a judge.
    for result in results(Random(seed))[540:]:
        await broker.observation(result)
    log = broker.logs[OBSERVATIONS]
    committed = 0
    while committed < len(log):
        worker = monitors(broker)
        broker.kill_after = random.randint(0, 40)
        offset = committed
        try:
            while offset < len(log):
                await worker.handle(log[offset])
                offset += 1
                if offset % 50 == 0:
                    await worker.look()
        except KeyboardInterrupt:
            pass
        if offset == len(log):
            break
        # The last finished offsets may not be committed.
        committed = max(committed, offset - random.randint(0, 30))
    wanted = undisturbed(broker)
    assert {alert.kind for alert in wanted} == {"drop", "recovered"}
    assert {alert.alert_id: alert for alert in broker.alerts} == {alert.alert_id: alert for alert in wanted}


@pytest.mark.parametrize("kills", [1, 4])
async def test_killed_amid_a_burst_no_task_is_written_twice(kills: int) -> None:
    broker, random = Broker(logs={TASKS: []}), Random(kills)
    for number in range(600):
        one = scored(number, random.choice([4, 5]) - 2 * (number >= 400))
        place = Source(topic=TASKS, partition=0, offset=len(broker.logs[TASKS]))
        await broker.task(task_of(one))
        await broker.observation(one.model_copy(update={"task": place}))
    live = len(broker.logs[TASKS])
    for _ in range(kills):
        worker = monitors(broker)
        await handle(worker, broker.logs[OBSERVATIONS])
        broker.kill_after = random.randint(1, 160 // kills)
        with suppress(KeyboardInterrupt):
            await worker.look()
        broker.kill_after = None
    worker = monitors(broker)
    await handle(worker, broker.logs[OBSERVATIONS])
    await worker.look()
    again = [JudgeTask.model_validate_json(one.value or b"") for one in broker.logs[TASKS][live:]]
    assert len({task.result_id for task in again}) == len(again) == 160
    for number, task in enumerate(again):
        judged = scored(600 + number, random.choice([2, 3]), replay_id=task.replay_id)
        await broker.observation(judged.model_copy(update={"event_id": task.event_id}))
    for number in range(700, 900):
        await broker.observation(scored(number, random.choice([2, 3])))
    await handle(worker, broker.logs[OBSERVATIONS][600:])
    said = [alert for alert in broker.alerts if alert.word is not None]
    assert len({alert.alert_id for alert in said}) == 1
    assert said[0].word is not None
    assert (said[0].word.said, said[0].word.product_is_fine) == ("judge", True)
    assert said[0].alert_id in {alert.alert_id for alert in broker.alerts if alert.word is None}
    assert worker.snapshot(at(2000)).series[0].mean.state == "watching"


async def test_without_any_state_the_observations_are_read_again() -> None:
    """The next owner, or one to whom the partition comes back, repeats no alert."""
    broker = await observed(1)
    log, first, second = broker.logs[OBSERVATIONS], monitors(broker), monitors(broker)
    for owner, stretch in ((first, log[:200]), (second, log[200:400]), (first, log[400:])):
        await handle(owner, stretch)
    assert broker.alerts == undisturbed(broker)


async def test_results_of_a_release_without_observations_are_learned() -> None:
    """The earlier release finished 250 results and 30 of another metric, and this one another 100."""
    broker, every = Broker(finished_scores=380), results(Random(3))
    others = [scored(number, 4, metric="coverage") for number in range(31)]
    for result in (*others[:30], *every):
        broker.score(result)
    broker.add(SCORES, b"", b"not a result", 0.0)
    for result in (*every[250:], others[30]):
        await broker.observation(result)
    await handle(worker := monitors(broker), broker.logs[OBSERVATIONS])
    assert broker.alerts == observe(every)
    found = worker.snapshot(at(999)).series
    assert [one.statuses["scored"] for one in found if not one.key.labels] == [31, 640]


async def test_results_that_wait_to_be_forwarded_are_not_learned_before_their_time() -> None:
    """A result judged earlier and forwarded later is observed when it arrives, after a restart too."""
    every = results(Random(6))
    order = [*every[40:80], *every[:40], *every[80:]]
    broker = Broker()
    for result in every:
        broker.score(result)
    for result in order[:10]:
        await broker.observation(result)
    worker = monitors(broker)
    await handle(worker, broker.logs[OBSERVATIONS])
    for result in order[10:]:
        await broker.observation(result)
    # The first worker is killed before it saves; meanwhile all results are finished.
    broker.finished_scores = len(every)
    await handle(monitors(broker), broker.logs[OBSERVATIONS])
    wanted = {alert.alert_id for alert in undisturbed(broker)}
    assert {alert.alert_id for alert in broker.alerts} == wanted
    assert counts(worker)[0] == 10


async def test_series_of_other_partitions_are_not_shown() -> None:
    broker, owned = await observed(4, count=100), [0]
    worker = monitors(broker, owned)
    await handle(worker, broker.logs[OBSERVATIONS])
    assert counts(worker) == [100, 50, 50]
    await worker.save()
    owned.clear()
    assert counts(worker) == []
    await worker.look()
    other = monitors(broker)
    await other.look()
    assert counts(other) == [100, 50, 50]


async def test_a_save_writes_what_changed_and_removes_what_it_replaced() -> None:
    broker = await observed(5, count=200)
    worker, log = monitors(broker), broker.logs[OBSERVATIONS]
    for stretch in (log[:150], log[150:], log[150:]):
        await handle(worker, stretch)
        await worker.save()
    held = {record.key: record.value for record in broker.logs[STATES]}
    assert sum(value is not None for value in held.values()) == 1 + 3
    assert len(broker.logs[STATES]) == 4 + (4 + 3)  # the third save has nothing new


DAMAGED = {
    "lost": None,
    "garbled": b"not zlib",
    "infinite": zlib.compress(b'{"version": 4, "next": Infinity, "heard": 0, "series": []}'),
    "deep": zlib.compress(b"[" * 100_000),
    "another form": zlib.compress(b'{"version": 4, "next": 250, "state": {"model": 7}}'),
    "another version": zlib.compress(b'{"version": 3, "next": 250, "heard": 0, "series": []}'),
}


@pytest.mark.parametrize(
    ("how", "of_mark", "cut"),
    [(how, of_mark, (250, 310, 480)[n % 3]) for n, how in enumerate(DAMAGED) for of_mark in (False, True)],
)
async def test_a_state_that_is_not_sound_is_learned_again(how: str, of_mark: bool, cut: int) -> None:
    broker = await observed(cut)
    log, first, second = broker.logs[OBSERVATIONS], monitors(broker), monitors(broker)
    for stretch in (log[:100], log[100:cut]):
        await handle(first, stretch)
        await first.save()
    key = next(one.key for one in broker.logs[STATES][::-1] if one.value and (one.key == b"[0]") == of_mark)
    broker.add(STATES, b"[" * 100_000, b"", 0.0)  # cannot be read, and concerns no series
    broker.add(STATES, None, None, 0.0)
    broker.add(STATES, key, DAMAGED[how], 0.0)
    await handle(second, log[cut:])
    assert broker.alerts == undisturbed(broker)
    problems = {} if of_mark and how == "lost" else {"incomplete": 1}
    assert second.snapshot(at(0)).state_problems == problems


FIRST_RELEASE = Path(__file__).parent / "state-0.1.json"
"""The state that version 0.1 saved after 345 of the results below, with one drop called. It stays."""
OBJECTS = [
    {one.name for one in fields(kind)}
    for part in (module, config, series, watch, baseline, detectors, estimators, strata)
    for kind in vars(part).values()
    if is_dataclass(kind)
]


def of_two_strata() -> list[Scored]:
    """Return results of which a quarter is sampled by conversations, at half the rate."""
    out = results(Random(2))
    for number in range(0, len(out), 4):
        sampling = Sampling(probability=0.5, stratum="gold", policy="p", cluster=f"{number // 40:014x}")
        out[number] = out[number].model_copy(update={"sampling": sampling})
    return out


def of_next_version(state: Any) -> Any:
    """Return a state with a further field in each object."""
    if isinstance(state, list):
        return [of_next_version(one) for one in state]
    if not isinstance(state, dict):
        return state
    is_object = any(names and state.keys() <= names for names in OBJECTS) and state
    more = {"of_next_version": [1]} if is_object else {}
    return {name: of_next_version(value) for name, value in state.items()} | more


def field_names(state: Any, path: str = "") -> set[str]:
    if isinstance(state, list):
        return {name for one in state for name in field_names(one, path)}
    inner = state.items() if isinstance(state, dict) else ()
    return {path, *(name for key, one in inner for name in field_names(one, f"{path}.{key}"))}


@pytest.mark.parametrize("change", [lambda state: state, of_next_version], ids=["first", "next"])
async def test_a_state_of_another_release_is_continued(change: Callable[[Any], Any]) -> None:
    broker = Broker()
    for result in of_two_strata():
        await broker.observation(result)
    saved = json.loads(FIRST_RELEASE.read_text(encoding="utf-8"))
    for key, state in saved.items():
        broker.add(STATES, key.encode(), zlib.compress(json.dumps(change(state)).encode()), 0.0)
    worker, log = monitors(broker), broker.logs[OBSERVATIONS]
    await worker.handle(log[345])
    assert worker.snapshot(at(345)).state_problems == {}
    assert counts(worker) == [346, 173, 173]
    await handle(worker, log[346:])
    called, *later = undisturbed(broker)
    assert called.raised_at < at(345)
    assert broker.alerts == later


def test_no_field_of_the_first_release_begins_at_its_default() -> None:
    """A field that was renamed would be ignored, and its successor empty."""
    for key, state in json.loads(FIRST_RELEASE.read_text(encoding="utf-8")).items():
        if key != "[0]":
            rules = CONFIG.rules("relevance", fixed_labels=len(state["key"][2]))
            loaded = series.Series.load(rules, json.dumps(state).encode())
            assert field_names(state) <= field_names(json.loads(loaded.dump()))


async def test_a_series_too_large_to_save_learns_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await observed(5)
    log, write = broker.logs[OBSERVATIONS], broker.monitor_state
    first, second = monitors(broker), monitors(broker)
    await handle(first, log[:100])
    await first.save()

    async def too_large(key: bytes, value: bytes | None) -> None:
        if b'"b"' in key and value is not None:
            raise TooLargeError("too large")
        await write(key, value)

    with monkeypatch.context() as patch:
        patch.setattr(broker, "monitor_state", too_large)
        await handle(first, log[100:200])
        await first.save()
    assert first.snapshot(at(0)).state_problems == {"too_large": 1}
    await handle(second, log[200:300])
    assert counts(second) == [300, 150, 50]


@pytest.mark.parametrize("later", [0, 100, 600], ids=["empty", "shorter", "longer"])
async def test_a_state_ahead_of_its_topic_blinds_nothing(later: int) -> None:
    """The observations were recreated: their offsets begin again."""
    broker = await observed(7, count=299)
    first, second = monitors(broker), monitors(broker)
    await handle(first, broker.logs[OBSERVATIONS])
    await first.save()
    broker.logs[OBSERVATIONS].clear()
    fresh = [scored(1000 + number, 1, labels={"app": "a"}) for number in range(700)]
    for result in fresh[:later]:
        await broker.observation(result)
    await second.look()
    for result in fresh[later:]:
        await broker.observation(result)
    await handle(second, broker.logs[OBSERVATIONS][later // 2 :])  # the group's offset is anywhere
    assert {alert.measure for alert in broker.alerts} >= {"mean", "share_at_most_2"}
    assert broker.alerts[0].raised_at < at(1100)
    assert second.snapshot(at(0)).state_problems == {"ahead": 1}
    assert counts(second) == [999, 850, 149]


async def test_a_topic_restored_from_an_older_copy_counts_nothing_twice() -> None:
    """The observations that a restored topic still has are in the state; the new ones count."""
    broker = await observed(8, count=200)
    first, second = monitors(broker), monitors(broker)
    await handle(first, broker.logs[OBSERVATIONS])
    await first.save()
    del broker.logs[OBSERVATIONS][150:]
    for result in results(Random(8))[200:260]:
        await broker.observation(result)
    await handle(second, broker.logs[OBSERVATIONS])
    assert counts(second) == [260, 130, 130]


async def test_an_error_of_the_broker_loses_no_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    """An observation whose monitor cannot start, or whose alert cannot be written, is tried again."""
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.0, 0.0))
    broker, random = await observed(9, count=400), Random(10)

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        def fail_or_call(*args: Any) -> Any:
            if random.random() < 0.5:
                raise StreamsError("the broker is away")
            return call(*args)

        return fail_or_call

    monkeypatch.setattr(broker, "read", failing(broker.read))
    monkeypatch.setattr(broker, "alert", failing(broker.alert))
    await handle(monitors(broker), broker.logs[OBSERVATIONS])
    wanted = {one.alert_id: one for one in undisturbed(broker)}
    assert {one.alert_id: one for one in broker.alerts} == wanted
    # A worker that lost the partition leaves its record to the next owner.
    monkeypatch.setattr(random, "random", lambda: 0.0)
    with pytest.raises(DrainingError):
        await monitors(broker, owned=()).handle(broker.logs[OBSERVATIONS][0])


async def test_an_observation_that_always_fails_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alerts carry the incident that is known."""
    broker, working = await observed(11), Monitor.observe

    def failing(monitor: Monitor, result: Scored, *args: Any) -> list[Alert]:
        if result.event_id == "e290":
            raise RuntimeError("a bug")
        return working(monitor, result, *args)

    monkeypatch.setattr(Monitor, "observe", failing)
    worker = monitors(broker, tell=lambda alert: f"{alert.kind} of {alert.metric}")
    await handle(worker, broker.logs[OBSERVATIONS])
    assert {one.incident_id for one in broker.alerts} == {"drop of relevance", "recovered of relevance"}
    assert counts(worker)[0] == 639


async def test_what_is_not_live_is_not_forwarded() -> None:
    broker = Broker()
    for value in (
        scored(1, 5).model_dump_json().encode(),
        scored(2, 5, replay_id="replay-last-week").model_dump_json().encode(),
        scored(3, 5, replay_id="burst-1", metric="coverage").model_dump_json().encode(),
        b"not a result",
        None,
    ):
        await forward(broker, Record(SCORES, 3, 7, 0.0, b"e", value))  # type: ignore[arg-type]
    assert [record.key for record in broker.logs[OBSERVATIONS]] == [b"relevance", b"coverage"]


async def test_each_anchor_is_written_once_also_after_a_kill() -> None:
    """The second worker counts again what the first had counted but not saved, and writes only the third."""
    broker = await observed(1, count=65)
    task, evaluator = task_of(scored(7, 4)), scored(7, 4).evaluator
    anchor = Anchor(
        anchor_id=task.result_id, metric=task.metric, task=task, evaluator=evaluator, scores=(4.0, 4.0, 4.0),
        known_bad=False, enrolled_at=at(0),
    )  # fmt: skip
    enrolment = Enrolment(evaluator, at(0), {anchor.anchor_id: anchor})
    records = broker.logs[OBSERVATIONS]
    first, second = (monitors(broker, enrolments={task.metric: enrolment}) for _ in range(2))
    await handle(first, records[:25])
    await first.save()
    await handle(first, records[25:45])
    await handle(second, records[45:])
    assert [one.replay_id for one in broker.tasks] == [f"{enrolment.name}{number}" for number in (1, 2, 3)]
    assert len({one.result_id for one in broker.tasks}) == 3
    assert {one.answer for one in broker.tasks} == {task.answer}
