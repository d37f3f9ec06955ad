"""Workers die, move and are upgraded while scores fall and rise: the alerts are those of one monitor.

The alerts follow from the order of the observations alone. The reference is one monitor in this process that
reads the same observations, and every alert must be one of its alerts, by id. If an earlier release left no
observations, the kinds are compared in their order, for a worker may learn before all earlier results are
there. A delayed worker forwards good results after bad ones: then the reference raises a further drop, too.
"""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from schemas import RESULT, Alert
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor
from streams.monitoring.partitions import STATE_VERSION
from tests.chaos import earlier
from tests.chaos.arena import PARTITIONS, PROGRAM, Arena, fault
from tests.chaos.checker import Report
from tests.integration.deadlines import until
from tests.integration.tuning import environment
from tests.places import ROOT

SESSION_SECONDS: Final = 3
_MIN_DROP: Final = 1.0
"""Large enough for a few dozen answers to show the recovery."""
_UPGRADE_SECONDS: Final = 160.0
"""Half of the events arrive during the upgrades, half after them."""
_LOOK_AGAIN_SECONDS = 0.2


def _prepare(arena: Arena) -> None:
    arena.watches_observations = True
    arena.stage.changes["monitor.min_drop"] = _MIN_DROP


async def _score(arena: Arena, score: int, until_share: float | None) -> None:
    """Set the judge's score until it has answered this share of calls an event (about 0.6 are all)."""
    limit = None if until_share is None else round(until_share * arena.size.events)
    await arena.judge.change(score=score, limit=limit)


async def _answered(arena: Arena, share: float) -> None:
    """Wait until the judge has answered this many calls for each event."""
    wanted = round(share * arena.size.events)

    async def enough() -> bool:
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)  # each poll is a request to the judge
        return await arena.judge.change() >= wanted

    await until(enough, f"{wanted} verdicts", deadline_seconds=arena.size.settle_seconds)


async def _undisturbed(arena: Arena, *, learns: bool = False) -> dict[str, Alert]:
    """The alerts of one monitor; `learns` lets it first read results that are not among the observations."""
    ranges = dict.fromkeys(arena.policy.metrics, (1.0, 5.0))
    config = MonitorConfig(labels=(), min_drop=_MIN_DROP, score_ranges=ranges)
    monitors = [Monitor(config) for _ in range(PARTITIONS)]
    alerts = {}
    records = await arena.stage.read("observations")
    if learns:
        observed = {RESULT.validate_json(record.value).result_id for record in records}
        before = {one.result_id: one for one in await arena.stage.results() if one.result_id not in observed}
        for result in sorted(before.values(), key=lambda one: (one.times.judged_at, one.result_id)):
            for monitor in monitors:
                monitor.observe(result, result.times.judged_at)
    for record in records:
        moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
        for alert in monitors[record.partition].observe(RESULT.validate_json(record.value), moment):
            alerts[alert.alert_id] = alert
    return alerts


def _kinds(alerts: Iterable[Alert]) -> list[tuple[str, str, str]]:
    return sorted({(alert.metric, alert.measure, alert.kind) for alert in alerts})


def _of_tone(alerts: Mapping[str, Alert]) -> list[Alert]:
    return [alert for alert in alerts.values() if alert.metric == "tone" and alert.measure == "mean"]


async def _same_alerts(arena: Arena) -> Report:
    """End the run and compare its alerts with those of an undisturbed one."""
    report = await arena.verdict()
    found = {alert.alert_id: alert for alert in await arena.stage.alerts()}
    wanted = await _undisturbed(arena)
    assert {("tone", "mean", "drop"), ("tone", "mean", "recovered")} <= set(_kinds(wanted.values()))
    assert found.keys() == wanted.keys(), (_kinds(found.values()), _kinds(wanted.values()))
    # Compare the contents, not only the ids.
    without = {"incident_id"}  # a worker adds it where it knows the incident's first alert
    assert [found[one].model_dump(exclude=without) for one in wanted] == [
        wanted[one].model_dump(exclude=without) for one in wanted
    ]
    return report


@fault("alarms: SIGKILL of the monitor's owner", workers=2)
async def killed_during_a_drop(arena: Arena) -> Report:
    """Each worker is killed before, during and after the drop: the alerts are those of an undisturbed run."""
    _prepare(arena)
    await _score(arena, 5, 0.1)
    await arena.begin(session_seconds=SESSION_SECONDS)
    for score, share in ((5, 0.2), (1, 0.25), (1, 0.35), (5, 0.45)):
        await _score(arena, score, share)
        for worker in arena.workers:
            await worker.restart(signal.SIGKILL)
        await _answered(arena, share)
    await _score(arena, 5, None)
    for worker in arena.workers:
        await worker.reads()
    return await _same_alerts(arena)


@fault("alarms: the monitor moves to other workers", workers=3)
async def moved_during_a_drop(arena: Arena) -> Report:
    """Workers join and leave before, during and after the drop, so that partitions and monitors move."""
    _prepare(arena)
    await _score(arena, 5, 0.2)
    await arena.begin(workers=1, session_seconds=SESSION_SECONDS)
    await arena.start_workers(1)
    await _answered(arena, 0.2)
    await _score(arena, 1, 0.3)
    await arena.start_workers(1)
    await _answered(arena, 0.3)
    await _score(arena, 1, 0.35)
    first = arena.workers[0]
    assert await first.end(signal.SIGTERM) == 0, first.tail()
    await _answered(arena, 0.35)
    await _score(arena, 5, None)
    await first.start()
    await first.reads()
    return await _same_alerts(arena)


@fault("alarms: rolling upgrade from a release without state", workers=2)
async def upgraded_before_a_drop(arena: Arena) -> Report:
    """The earlier release kept neither observations nor state: its results suffice for both alerts."""
    _prepare(arena)
    # A release that wrote observations and state to other topics has written none for the new one.
    constants, elsewhere = arena.constants, arena.stage.topic("earlier")
    at, names = "streams.settings.broker.TopicSettings", ("observations", "monitor_state")
    arena.constants = {**constants, **{f"{at}.{name}": f"{elsewhere}.{name}" for name in names}}
    await _score(arena, 5, 0.2)
    await arena.begin(session_seconds=SESSION_SECONDS)
    await _answered(arena, 0.2)
    await _score(arena, 5, 0.25)
    for worker in arena.workers:
        worker.environment |= environment(constants)
        await worker.restart()
        await worker.reads()
    await _answered(arena, 0.25)
    await _score(arena, 1, 0.35)
    await _answered(arena, 0.35)
    await _score(arena, 5, None)
    report = await arena.verdict()
    found = _of_tone({alert.alert_id: alert for alert in await arena.stage.alerts()})
    wanted = _of_tone(await _undisturbed(arena, learns=True))
    assert {"drop", "recovered"} <= {alert.kind for alert in wanted}
    contents = "\n".join(map(repr, ["found", *found, "wanted", *wanted]))
    assert [(one.kind, one.further) for one in found] == [(one.kind, one.further) for one in wanted], contents
    learned = [line for worker in arena.workers for line in worker.lines("has learned from earlier")]
    assert any('"metric": "tone"' in line for line in learned), "no result of the earlier release was read"
    return report


@fault("alarms: upgrade from the last release, rollback, upgrade", workers=4)
async def upgraded_and_rolled_back(arena: Arena) -> Report:
    """Old and new workers share one group while each is replaced by this version, by the last release again,
    and by this version: no alert is raised before a drop, which is found then, and the store is complete.
    """
    _prepare(arena)
    arena.stage.changes["store.path"] = str(arena.directory / "verdicts.db")
    arena.stage.prefixed = False  # the last release does not know the setting
    before = await asyncio.to_thread(earlier.program)
    await _score(arena, 5, None)
    await arena.start_workers(1, agents=("store",), program=before)
    await arena.start_workers(2, program=before)
    arena.start_feed(stretch=_UPGRADE_SECONDS / arena.size.seconds, kept=2)
    await arena.judged(20)
    await arena.start_workers(1)
    await arena.judged(20)
    kept, unread = earlier.state_version(), "the monitor's state cannot be read"
    for program in (PROGRAM, before, PROGRAM):
        for worker in arena.workers:
            await arena.roll(worker, program)
        if kept == STATE_VERSION or (kept is not None and program is PROGRAM):
            assert not [line for worker in arena.workers for line in worker.lines(unread)]
    assert await arena.stage.alerts() == []
    await arena.feed.held_back()
    answered = await arena.judge.change() / arena.size.events
    await _score(arena, 1, answered + 0.08)
    arena.feed.release()
    await _answered(arena, answered + 0.08)
    await _score(arena, 5, None)
    report = await _same_alerts(arena)
    assert report.dead_letters == 0
    for program in (before, PROGRAM):
        await _stores_all(arena, program)
    return report


async def _stores_all(arena: Arena, program: Sequence[str]) -> None:
    """Start the store's worker by a program, and wait until it exports every live result once."""
    store = arena.workers[0]
    await store.restart(program=program)
    await store.reads()
    live = {result.result_id for result in await arena.stage.results() if result.replay_id is None}
    export = [*program, "export", "--config", str(arena.directory / "settings.yaml")]

    async def exported() -> bool:
        done = await asyncio.create_subprocess_exec(*export, cwd=ROOT, stdout=PIPE, stderr=DEVNULL)
        lines, _ = await done.communicate()
        return sorted(json.loads(line)["result_id"] for line in lines.splitlines()) == sorted(live)

    await until(exported, "every result in the store", deadline_seconds=arena.size.settle_seconds)
    assert await store.end(signal.SIGTERM) == 0, store.tail()
