"""Keepers on several workers give the alerts of one monitor that reads all observations in order."""

from __future__ import annotations

import contextlib
import json
import sys
import zlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Any

import pytest

from judge.errors import DrainingError
from schemas import Alert, Scored
from streams.errors import StreamsError, TooLargeError
from streams.kafka.reader import Ranges
from streams.kafka.record import Record
from streams.monitoring import keeper as module
from streams.monitoring.agent import Forwarder
from streams.monitoring.config import MonitorConfig
from streams.monitoring.keeper import Keeper
from streams.monitoring.monitor import Monitor
from streams.monitoring.state import Kept, take
from tests.streams.randomness import seeded
from tests.streams.results import START, at, scored

CONFIG = MonitorConfig(labels=("app",), baseline_samples=20)
OBSERVATIONS, STATES, SCORES = "observations", "states", "scores"


@dataclass
class Broker:
    """Topics in memory, whose writes can fail or kill the writer."""

    logs: dict[str, list[Record]] = field(default_factory=dict)
    alerts: list[Alert] = field(default_factory=list)
    kill_after: int | None = None
    """Number of writes before the writer is killed."""
    finished_scores: int = 0

    async def finished(self) -> dict[int, int]:
        return {0: self.finished_scores}

    def add(self, topic: str, key: bytes | None, value: bytes | None, timestamp: float) -> Record:
        log = self.logs.setdefault(topic, [])
        log.append(Record(topic, 0, len(log), timestamp, key, value))
        return log[-1]

    def _killed(self) -> None:
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after < 0:
                raise KeyboardInterrupt

    async def alert(self, alert: Alert) -> None:
        self._killed()
        self.alerts.append(alert)

    async def ends(self, topic: str) -> dict[int, int]:
        return {0: len(self.logs.get(topic, []))}

    async def monitor_state(self, key: bytes, value: bytes | None) -> None:
        self._killed()
        self.add(STATES, key, value, 0.0)

    async def observation(self, result: Scored) -> None:
        self.add(
            OBSERVATIONS,
            result.metric.encode(),
            result.model_dump_json().encode(),
            result.times.judged_at.timestamp(),
        )

    async def read(self, topic: str, ranges: Ranges | None = None) -> AsyncIterator[Record]:
        ((start, end),) = (ranges or {0: (0, sys.maxsize)}).values()
        for record in self.logs.get(topic, [])[start:end]:
            yield record


def keeper(broker: Broker, owned: Collection[int] = (0,), **further: Any) -> Keeper:
    return Keeper(
        CONFIG,
        broker,  # type: ignore[arg-type]  # in the place of topics
        broker,  # type: ignore[arg-type]
        observations=OBSERVATIONS,
        states=STATES,
        scores=SCORES,
        finished=broker.finished,
        assigned=lambda: owned,
        **further,
    )


def results(random: Random) -> list[Scored]:
    """Return good results with a fall of one app in between."""
    out = []
    for number in range(900):
        app = "ab"[number % 2]
        bad = 300 <= number < 500 and app == "a"
        out.append(scored(number, random.choice([1, 2] if bad else [4, 5, 5]), labels={"app": app}))
    return out


def undisturbed(broker: Broker) -> list[Alert]:
    """Return the alerts of one monitor that reads all observations in order."""
    alone = Monitor(CONFIG)
    records = broker.logs[OBSERVATIONS]
    return [
        alert
        for record in records
        for alert in alone.observe(Scored.model_validate_json(record.value or b""), _moment(record))
    ]


def _moment(record: Record) -> datetime:
    return at(round((record.timestamp or 0) - START.timestamp()))


@pytest.mark.parametrize("seed", range(6))
async def test_killed_at_any_point_the_alerts_are_those_of_one_monitor(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kills between any writes, the alerts are those of one monitor.

    Each next worker continues at or before the committed offset.
    """
    monkeypatch.setattr(module, "SAVE_OBSERVATIONS", 100)
    random = seeded(seed)
    broker = Broker()
    for result in results(random):
        await broker.observation(result)
    # Some results are repeated, as after the kill of a judge.
    for result in results(seeded(seed))[800:]:
        await broker.observation(result)
    log = broker.logs[OBSERVATIONS]
    committed = 0
    while committed < len(log):
        worker = keeper(broker)
        broker.kill_after = random.randint(0, 40)
        offset = committed
        try:
            while offset < len(log):
                await worker.handle(log[offset])
                offset += 1
                if offset % 50 == 0:
                    await worker._look()
        except KeyboardInterrupt:
            pass
        # The last finished offsets may not be committed.
        committed = max(committed, offset - random.randint(0, 30))
        if offset == len(log):
            break
    broker.kill_after = None
    wanted = undisturbed(broker)
    assert {alert.kind for alert in wanted} == {"drop", "recovered"}
    assert {alert.alert_id: alert for alert in broker.alerts} == {alert.alert_id: alert for alert in wanted}


async def test_without_any_state_the_observations_are_read_again() -> None:
    """If the state topic is lost, the next owner reads the observations again."""
    broker = Broker()
    for result in results(seeded(1)):
        await broker.observation(result)
    log = broker.logs[OBSERVATIONS]
    first, second = keeper(broker), keeper(broker)
    for record in log[:400]:
        await first.handle(record)
    for record in log[400:]:
        await second.handle(record)
    assert broker.alerts == undisturbed(broker)


async def test_alerts_carry_the_incident_that_is_known() -> None:
    """A published alert names its incident and a changed judge, and is the monitor's own otherwise."""
    broker = Broker()
    one = keeper(broker, tell=lambda alert: f"incident of {alert.metric}", notes=lambda: ["m-2 answers"])
    for result in results(seeded(1)):
        await broker.observation(result)
    for record in broker.logs[OBSERVATIONS]:
        await one.handle(record)
    assert {alert.incident_id for alert in broker.alerts} == {"incident of relevance"}
    bare = [
        alert.model_copy(update={"incident_id": None, "summary": alert.summary.removesuffix("; m-2 answers")})
        for alert in broker.alerts
    ]
    assert bare != [alert.model_copy(update={"incident_id": None}) for alert in broker.alerts]
    assert bare == undisturbed(broker)


async def test_a_partition_that_comes_back_is_brought_up_to_date() -> None:
    """A partition that returns is read from where it left, and no alert is repeated."""
    broker = Broker()
    for result in results(seeded(2)):
        await broker.observation(result)
    log = broker.logs[OBSERVATIONS]
    first, second = keeper(broker), keeper(broker)
    for worker, stretch in ((first, log[:250]), (second, log[250:600]), (first, log[600:])):
        for record in stretch:
            await worker.handle(record)
    assert broker.alerts == undisturbed(broker)


async def test_results_of_a_release_without_observations_are_learned() -> None:
    """After an upgrade from a release without observations, the monitor learns from the results."""
    broker = Broker()
    every = results(seeded(3))
    for result in every:
        broker.add(SCORES, b"", result.model_dump_json().encode(), result.times.judged_at.timestamp())
    broker.add(SCORES, b"", b"not a result", 0.0)
    # Before the first observation the earlier release finished 250 results, and this one another 100.
    broker.finished_scores = 350
    for result in every[250:]:
        await broker.observation(result)
    worker = keeper(broker)
    for record in broker.logs[OBSERVATIONS]:
        await worker.handle(record)
    whole = Monitor(CONFIG)
    wanted = [alert for result in every for alert in whole.observe(result, result.times.judged_at)]
    assert broker.alerts == wanted


async def test_results_that_wait_to_be_forwarded_are_not_learned_before_their_time() -> None:
    """A result judged earlier and forwarded later is observed when it arrives, after a restart too."""
    every = results(seeded(6))
    order = [*every[40:80], *every[:40], *every[80:]]
    broker = Broker()
    for result in every:
        broker.add(SCORES, b"", result.model_dump_json().encode(), result.times.judged_at.timestamp())
    for result in order[:10]:
        await broker.observation(result)
    worker, later = keeper(broker), keeper(broker)
    for record in broker.logs[OBSERVATIONS]:
        await worker.handle(record)
    for result in order[10:]:
        await broker.observation(result)
    # The first worker is killed before it saves; meanwhile all results are finished.
    broker.finished_scores = len(every)
    for record in broker.logs[OBSERVATIONS]:
        await later.handle(record)
    assert broker.alerts == undisturbed(broker)
    assert worker.snapshot(at(9)).series[0].scored == 10


async def test_each_metric_learns_from_what_was_left_of_it() -> None:
    """Each metric learns from its own earlier results."""
    broker = Broker()
    for metric in ("coverage", "relevance"):
        for number in range(30):
            result = scored(number, 4, metric=metric, labels={})
            broker.add(SCORES, b"", result.model_dump_json().encode(), 0.0)
    broker.finished_scores = 60
    worker = keeper(broker)
    for metric in ("relevance", "coverage"):
        await broker.observation(scored(99, 4, metric=metric, labels={}))
        await worker.handle(broker.logs[OBSERVATIONS][-1])
    series = worker.snapshot(at(99)).series
    assert [(one.metric, one.scored) for one in series] == [("coverage", 31), ("relevance", 31)]


async def test_series_of_other_partitions_are_not_shown() -> None:
    """A keeper shows only series of its partitions, and the next owner shows them before an observation."""
    broker = Broker()
    for result in results(seeded(4))[:100]:
        await broker.observation(result)
    owned = [0]
    worker = keeper(broker, owned)
    for record in broker.logs[OBSERVATIONS]:
        await worker.handle(record)
    assert [one.scored for one in worker.snapshot(at(99)).series] == [100, 50, 50]
    await worker.save()
    owned.clear()
    assert worker.snapshot(at(99)).series == ()
    await worker._look()
    # The next owner shows the series before an observation arrives.
    other = keeper(broker)
    await other._look()
    assert [one.scored for one in other.snapshot(at(99)).series] == [100, 50, 50]


def _damage(log: list[Record], how: str) -> None:
    """Damage the latest records of the series of app a and of the whole."""
    for key in (b'[0, "relevance", "f1", [["app", "a"]]]', b'[0, "relevance", "f1", []]'):
        found = [number for number, record in enumerate(log) if record.key == key]
        value = {
            "garbled": b"not zlib",
            "infinite": zlib.compress(b'{"version": 1, "next": Infinity, "state": {}}'),
            "deep": zlib.compress(b"[" * 100_000),
            "another form": zlib.compress(b'{"version": 1, "next": 250, "state": {"model": 7}}'),
        }.get(how)
        if how == "lost":
            log[:] = [record for record in log if record.key != key]
        elif how == "old":
            log[:] = [record for number, record in enumerate(log) if number != found[-1]]
        else:
            log[found[-1]] = replace(log[found[-1]], value=value)


@pytest.mark.parametrize("how", ["lost", "old", "garbled", "infinite", "deep", "another form"])
@pytest.mark.parametrize("cut", [250, 310, 480])
async def test_a_series_without_a_sound_record_learns_again(how: str, cut: int) -> None:
    """A record that is lost, old or damaged changes no alert: its series learns from the observations."""
    broker = Broker()
    for result in results(seeded(cut)):
        await broker.observation(result)
    log = broker.logs[OBSERVATIONS]
    first, second = keeper(broker), keeper(broker)
    for record in log[:cut]:
        await first.handle(record)
        if record.offset in {100, cut - 1}:
            await first.save()
    broker.add(STATES, b"[" * 100_000, b"", 0.0)  # cannot be read, and concerns no series
    broker.add(STATES, None, None, 0.0)
    _damage(broker.logs[STATES], how)
    for record in log[cut:]:
        await second.handle(record)
    assert broker.alerts == undisturbed(broker)
    problems = {reason: count for reason, count in second.snapshot(at(0)).state_problems.items() if count}
    assert problems == {"incomplete": 2}


async def test_a_series_too_large_to_save_learns_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A series that could not be saved learns again from the observations, not from an old record."""
    broker = Broker()
    for result in results(seeded(5)):
        await broker.observation(result)
    log = broker.logs[OBSERVATIONS]
    first, second = keeper(broker), keeper(broker)
    for record in log[:100]:
        await first.handle(record)
    await first.save()

    async def too_large(key: bytes, value: bytes | None) -> None:
        if key != b"[0]":
            raise TooLargeError("too large")
        broker.add(STATES, key, value, 0.0)

    with monkeypatch.context() as patch:
        patch.setattr(broker, "monitor_state", too_large)
        for record in log[100:400]:
            await first.handle(record)
        await first.save()
    assert first.snapshot(at(0)).state_problems == {"too_large": 3}
    for record in log[400:]:
        await second.handle(record)
    assert broker.alerts == undisturbed(broker)


@pytest.mark.parametrize("later", [0, 100, 600], ids=["empty", "shorter", "longer"])
async def test_a_state_ahead_of_its_topic_blinds_nothing(later: int) -> None:
    """After the observations were recreated, all new ones count, though their offsets begin again."""
    broker = Broker()
    for result in results(seeded(7))[:299]:
        await broker.observation(result)
    first, second = keeper(broker), keeper(broker)
    for record in broker.logs[OBSERVATIONS]:
        await first.handle(record)
    await first.save()
    broker.logs[OBSERVATIONS].clear()
    fresh = [scored(1000 + number, 1, labels={"app": "a"}) for number in range(700)]
    for result in fresh[:later]:
        await broker.observation(result)
    await second._look()
    for result in fresh[later:]:
        await broker.observation(result)
    for record in broker.logs[OBSERVATIONS][later // 2 :]:  # the group's offset is anywhere
        await second.handle(record)
    assert {alert.measure for alert in broker.alerts} >= {"mean", "share_at_most_2"}
    assert broker.alerts[0].raised_at < at(1100)
    assert second.snapshot(at(0)).state_problems == {"ahead": 1}
    assert [one.scored for one in second.snapshot(at(0)).series] == [999, 850, 149]


async def test_a_topic_restored_from_an_older_copy_counts_nothing_twice() -> None:
    """The observations that a restored topic still has are in the state; the new ones count."""
    broker = Broker()
    every = results(seeded(8))
    for result in every[:200]:
        await broker.observation(result)
    first, second = keeper(broker), keeper(broker)
    for record in broker.logs[OBSERVATIONS]:
        await first.handle(record)
    await first.save()
    del broker.logs[OBSERVATIONS][150:]
    for result in every[200:260]:
        await broker.observation(result)
    for record in broker.logs[OBSERVATIONS]:
        await second.handle(record)
    assert [one.scored for one in second.snapshot(at(0)).series] == [260, 130, 130]


async def test_an_error_of_the_broker_loses_no_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    """An observation whose monitor cannot start, or whose alert cannot be written, is tried again."""
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.0, 0.0))
    broker = Broker()
    for result in results(seeded(9)):
        await broker.observation(result)
    log, random = broker.logs[OBSERVATIONS], seeded(10)
    read, alert = broker.read, broker.alert

    def failing_read(*args: Any, **options: Any) -> AsyncIterator[Record]:
        if random.random() < 0.5:
            raise StreamsError("the broker is away")
        return read(*args, **options)

    async def failing_alert(one: Alert) -> None:
        if random.random() < 0.5:
            raise StreamsError("the broker is away")
        await alert(one)

    monkeypatch.setattr(broker, "read", failing_read)
    monkeypatch.setattr(broker, "alert", failing_alert)
    worker = keeper(broker)
    for record in log:
        await worker.handle(record)
    wanted = {one.alert_id: one for one in undisturbed(broker)}
    assert {one.alert_id: one for one in broker.alerts} == wanted
    # A worker that lost the partition leaves its record to the next owner.
    monkeypatch.setattr(broker, "read", lambda *_, **__: failing_read())
    monkeypatch.setattr(random, "random", lambda: 0.0)
    with pytest.raises(DrainingError):
        await keeper(broker, owned=()).handle(log[0])


async def test_an_observation_that_always_fails_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    for result in results(seeded(11)):
        await broker.observation(result)
    observe = Monitor.observe

    def failing(monitor: Monitor, result: Scored, *args: Any, **options: Any) -> list[Alert]:
        if result.event_id == "e290":
            raise RuntimeError("a bug")
        return observe(monitor, result, *args, **options)

    monkeypatch.setattr(Monitor, "observe", failing)
    worker = keeper(broker)
    for record in broker.logs[OBSERVATIONS]:
        await worker.handle(record)
    assert {one.kind for one in broker.alerts} == {"drop", "recovered"}
    assert worker.snapshot(at(0)).series[0].scored == 899


def test_a_state_of_another_version_is_read_or_refused() -> None:
    """The first version has neither digests nor the latest time; a later one cannot be read."""
    kept, key = Kept(), b'[0, "relevance", "f1", []]'
    for version in (1, 3):
        for name, state in ((key, {"model": "m"}), (b"[0]", None)):
            content = json.dumps({"version": version, "next": 7, "state": state})
            with (
                contextlib.nullcontext()
                if version == 1
                else pytest.raises(ValueError, match="version 1 to 2")
            ):
                take(kept, 0, name, zlib.compress(content.encode()))
        assert (kept.next, kept.heard, kept.listed) == (7, None, None)
        assert len(kept.incomplete()) == (version == 3)


async def test_what_is_not_live_is_not_forwarded() -> None:
    broker = Broker()
    forwarder = Forwarder(broker)  # type: ignore[arg-type]
    for value in (
        scored(1, 5).model_dump_json().encode(),
        scored(2, 5, replay_id="last-week").model_dump_json().encode(),
        b"not a result",
        None,
    ):
        await forwarder.handle(Record(SCORES, 3, 7, 0.0, b"e", value))
    assert [record.key for record in broker.logs[OBSERVATIONS]] == [b"relevance"]
