"""The word on an alarm: its formulas, the bursts that find it, another one on demand, and its tasks."""

from __future__ import annotations

import asyncio
import os
from math import sqrt
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from benchmarks.words import CASES, CONFIG, Run, words
from schemas import Alert, JudgeCall, JudgeTask, Word
from streams.embedded.broker import EmbeddedBroker
from streams.kafka.reader import TopicReader
from streams.kafka.record import Record
from streams.monitoring.burst import (
    KEPT,
    Burst,
    Difference,
    OldAnswers,
    Pick,
    difference_of,
    fall,
    is_fine,
    verdict,
)
from streams.monitoring.config import MonitorConfig, mean_of
from streams.monitoring.monitor import Monitor, MonitorSnapshot, gauges_of
from streams.monitoring.observations import DEMAND, judge_burst, observed, task_again
from streams.monitoring.series import Series
from streams.monitoring.statistics.estimators import WeightedSums
from streams.settings.broker import KafkaSettings
from streams.store.views.incidents import group
from streams.store.views.report import card
from tests.streams.cli.processes import call, is_ours
from tests.streams.monitoring.broker import OBSERVATIONS, TASKS, TOPICS, Broker, monitors
from tests.streams.results import alert, at, scored, task_of
from tests.streams.store.records import StoreFile
from tests.threaded_broker import broker_in_thread

BY_NAME = {case.name: case for case in CASES}


def alarmed(case: str, config: MonitorConfig = CONFIG) -> tuple[Run, Alert, Word]:
    """Return a run up to its first word, with the alert as it was first raised."""
    run = Run(BY_NAME[case], Random(1), Monitor(config))
    first, word = run.word()
    assert first is not None
    assert word is not None
    return run, first, word


def test_the_judge_s_shift_by_hand() -> None:
    """Of 40 differences half are 0.2 and half 0, with equal weights.

    The mean is 0.1. V = (40 * 0.1^2 / 40^2 + 0.75 / 40^2) * 40 / 39 = (0.00025 + 0.00046875) * 40 / 39
    = 0.000737179, its root 0.0271510; 2.24 of these are 0.0608183. So 0.0391817 to 0.1608183.
    """
    found = difference_of(WeightedSums.of([(0.2, 1.0), (0.0, 1.0)] * 20))
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.1, 0.0391817, 0.1608183), abs=1e-6)
    assert difference_of(WeightedSums.of([(0.2, 1.0)] * 29)) is None


def test_the_fall_has_the_errors_of_baseline_live_answers_and_season() -> None:
    """The variances add up: 0.8 - 0.7 = 0.1, with V of both (the imagined squares alone) and 0.03^2.

    V = 0.75 / 100^2 * 100 / 99 = 0.0000757576.
    """
    usual, live = (WeightedSums.of([(value, 1.0)] * 100) for value in (0.8, 0.7))
    found = fall(usual, live, season_error=0.03)
    assert found is not None
    assert (found.mean, found.variance) == pytest.approx((0.1, 2 * 0.0000757576 + 0.0009), abs=1e-9)
    product = found.minus(Difference(0.06, 0.0001, 120))
    assert (product.mean, product.variance) == pytest.approx((0.04, found.variance + 0.0001))


@pytest.mark.parametrize(
    ("judge", "product", "said", "fine"),
    [
        # Mean and half length of the interval; 0.05 is 0.25 points of five.
        ((0.10, 0.05), (0.00, 0.04), "judge", True),
        ((0.10, 0.05), (0.02, 0.04), "judge", False),
        ((0.04, 0.01), (0.00, 0.04), "unclear", True),  # certain, but not notable
        ((0.10, 0.11), (0.06, 0.07), "unclear", False),  # notable, but not certain
        ((0.00, 0.05), (0.10, 0.05), "product", False),
        ((0.10, 0.05), (0.10, 0.05), "both", False),
        (None, None, "unclear", False),
    ],
)
def test_the_word_that_two_intervals_allow(
    judge: tuple[float, float] | None, product: tuple[float, float] | None, said: str, fine: bool
) -> None:
    ends = [one and Difference(one[0], (one[1] / 2.24) ** 2, 100) for one in (judge, product)]
    assert (verdict(*ends), is_fine(ends[1])) == (said, fine)


def test_old_answers_are_a_random_sample_without_the_latest() -> None:
    """Of 4,000 answers 400 are kept, mostly of the last 2,000; the same ones each time."""
    run, kept = Run(BY_NAME["neither"], Random(5)), [OldAnswers(), OldAnswers()]
    for number in range(4_000):
        result = run.result(f"e{number}", 4, number, None, 1.0)
        for one in kept:
            one.add(result)
    assert kept[0] == kept[1]
    assert len(kept[0].picks) == KEPT
    ages = sorted(4_000 - one.number for one in kept[0].picks)
    # With a replaced one in five answers the age is exponential, of mean 2,000: median 1,386 of them.
    assert 1_000 < ages[KEPT // 2] < 1_800
    drawn = kept[0].draw("burst-1", 120, newest=3_900)
    assert len(drawn) == 120
    assert max(one.number for one in drawn) <= 3_900
    assert drawn == kept[0].draw("burst-1", 120, newest=3_900) != kept[0].draw("burst-2", 120, newest=3_900)


@pytest.mark.parametrize(("name", "right"), [("judge -0.5", "judge"), ("product -0.5", "product")])
def test_the_word_is_right(name: str, right: str) -> None:
    """In five runs of five; with 95% each, fewer than three are right in 0.1% of all seeds."""
    found = words(BY_NAME[name], 5)
    alarms = 5 - found["no alarm"]
    assert alarms >= 4
    assert sum(number for word, number in found.items() if word.startswith(right)) >= 3


def test_after_the_judge_moved_the_series_learns_anew() -> None:
    """And a state that is saved amid the burst goes on; a judge's word ends the incident."""
    run, _, word = alarmed("judge -1")
    assert (word.said, word.judge is not None and word.judge.low > 0.1) == ("judge", True)
    (series,) = run.monitor.series.values()
    assert (series.mean.state, series.bursts) in (("watching", {}), ("learning", {}))
    assert series.mean.usual.count <= 500
    assert run.monitor.last_alerts[0].word == word
    assert "the judge moved" in word.text
    assert Series.load(CONFIG.rules("m"), series.dump()).spent == series.spent


def test_a_budget_of_the_day_bounds_what_is_judged_again() -> None:
    """With 50 calls a day a burst has 50; the next one on that day has none, and says so."""
    _, _, word = alarmed("judge -1", CONFIG.model_copy(update={"rejudge_per_day": 50}))
    assert (word.judge and word.judge.count) == 50
    _, _, word = alarmed("judge -1", CONFIG.model_copy(update={"rejudge_per_day": 20}))
    assert "monitor.rejudge_per_day" in word.text


def test_a_judge_that_changes_its_name_is_noted_and_tried() -> None:
    """Old answers are judged again once; what they say is in the note of each later alert."""
    run = Run(BY_NAME["neither"], Random(3))
    call = JudgeCall(endpoint="e", model_asked="m", model_answered="m-1")
    for number in range(300):
        result = run.result(f"e{number}", 4, number, None, 1.0)
        name = "m-1" if number < 290 else "m-2"
        told = result.model_copy(update={"judge": call.model_copy(update={"model_answered": name})})
        run.monitor.observe(told, told.times.judged_at)
    (series,) = run.monitor.series.values()
    (burst,) = series.bursts.values()
    assert (len(burst.picks), burst.alert) == (160, None)
    for one in burst.missing:
        again = run.result(one.event_id, 3, 301, burst.replay_id, 1.0)
        run.monitor.observe(again, again.times.judged_at)
    gauges = {one.name: one.value for one in gauges_of(MonitorSnapshot([run.monitor], series.heard_at))}
    assert gauges["judge_names"] == 2
    note = series.names.note or ""
    assert "answers as m-2" in note
    # All differences are 1 of 4 points: 0.25 of the scale, with sqrt(0.75 / 160^2 * 160 / 159) = 0.0054297
    # as the error: 4 * 2.24 * 0.0054297 = 0.05.
    assert 4 * 2.24 * sqrt(0.75 / 160 / 159) == pytest.approx(0.0487, abs=1e-4)
    assert note.endswith("it scores 160 old answers 1.00 lower (97.5% interval 0.95 to 1.05)")


def test_a_word_waits_for_250_live_answers() -> None:
    burst = Burst("burst-1", "mean", at(0), alert("a"), WeightedSums.of([(0.8, 1.0)] * 100))
    for number in range(300):
        assert burst.is_due(at(number)) == (number >= 250)
        burst.add_live(0.8, 0.0, 1.0)
    assert burst.live.count == 250
    assert Burst("burst-2", "mean", at(0), alert("a")).is_due(at(12 * 3600))
    word = burst.word(mean_of(1, 5, min_drop=0.08), at(0))
    assert word.text.startswith("unclear whether the product or the judge moved")


def test_a_word_replaces_its_alert_and_one_on_the_judge_ends_the_incident() -> None:
    """Also for the parts that fell in the same scores; a word on the product ends nothing."""
    for said, ended in (("judge", at(900)), ("product", None)):
        word = Word(
            said=said, judge=None, product=None, product_is_fine=False, decided_at=at(900), text="It moved."
        )
        plain, part = alert("a"), alert("b", seconds=60, labels={"app": "docs"})
        (incident,) = group([plain, part, plain.model_copy(update={"word": word})])
        assert (len(incident.drops), incident.ended_at) == (2, ended)
        assert card(incident)[1] == "It moved."


def test_another_word_is_from_other_answers_old_and_live() -> None:
    run, first, before = alarmed("product -1")
    now = run.monitor.last_results[-1].times.judged_at
    run.monitor.judge_again(first, now)
    run.monitor.judge_again(first, now)  # while it is being found, a second demand begins nothing
    (series,) = run.monitor.series.values()
    (burst,) = series.bursts.values()
    assert len(burst.picks) == 160
    asked: dict[str, int] = {}
    said: list[Alert] = []
    for number in range(10_000, 10_300):
        said += [one for one in (*run.live(number, moved=True), *run.again(number, asked)) if one.word]
    assert [(one.alert_id, one.word and one.word.said) for one in said] == [(first.alert_id, "product")]
    assert said[0].word != before


@pytest.mark.parametrize(
    "update",
    [{"kind": "recovered"}, {"labels": {"app": "a"}}, {"fingerprint": "unknown"}, {"measure": "mix"}],
    ids=str,
)
def test_what_gets_no_word_begins_nothing(update: dict[str, object]) -> None:
    run, first, _ = alarmed("product -1")
    run.monitor.judge_again(first.model_copy(update=update), at(0))
    assert all(not series.bursts for series in run.monitor.series.values())


async def test_the_monitor_takes_a_demand_from_its_observations() -> None:
    """Whatever it has; a record that only says so is skipped."""
    run, first, _ = alarmed("product -1")
    held = monitors(broker := Broker())
    await broker.observation(scored(0, 4))
    await held.handle(broker.logs[OBSERVATIONS][0])
    ((_, one),) = held._held.items()
    one.monitor = run.monitor
    for offset, value in enumerate((b"no alert", first.model_dump_json().encode()), 1):
        record = Record(OBSERVATIONS, 0, offset, at(9).timestamp(), b"m", value, ((DEMAND, b""),))
        assert observed(record) == (None if offset == 1 else first)
        await held.handle(record)
        (series,) = run.monitor.series.values()
        assert len(series.bursts) == offset - 1


def test_the_command_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fell = alert("a" * 32)
    part = alert("b" * 32, labels={"app": "docs"}, seconds=90_000)
    for name, one in (("whole", fell), ("part", part)):
        StoreFile(tmp_path / name).write(one)
    with broker_in_thread(topics={TOPICS.observations: 1}) as servers:
        for name in filter(is_ours, list(os.environ)):
            monkeypatch.delenv(name)
        monkeypatch.setenv("JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS", servers)
        assert call("incident", "latest", "--rejudge", "--store", str(tmp_path / "whole")) == 0
        assert "relevance: old answers are judged again" in capsys.readouterr().err
        assert call("incident", "--rejudge", "--store", str(tmp_path / "whole")) == 2
        assert "--rejudge needs an incident" in capsys.readouterr().err
        assert call("incident", "latest", "--rejudge", "--store", str(tmp_path / "part")) == 2
        assert "has no drop of all answers" in capsys.readouterr().err

        async def sent() -> list[Record]:
            reader = TopicReader(KafkaSettings(bootstrap_servers=servers), fetch_bytes=1 << 20)
            return [record async for record in reader.read(TOPICS.observations)]

        (record,) = asyncio.run(sent())
    assert (record.key, observed(record)) == (b"relevance", fell)


async def test_tasks_are_found_by_place_and_written_once() -> None:
    """Of three wanted places one is beyond the end, and one no task; a repeated call writes nothing."""
    async with (
        EmbeddedBroker(topics={TASKS: 1}) as broker,
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):

        async def write(task: JudgeTask) -> None:
            headers = [("result_id", task.result_id.encode())]
            await producer.send_and_wait(TASKS, task.model_dump_json().encode(), headers=headers)

        writer: Any = SimpleNamespace(task=write)
        past = TopicReader(KafkaSettings(bootstrap_servers=broker.bootstrap_servers))
        old = task_of(scored(1, 4))
        await producer.send_and_wait(TASKS, b"no task")
        await write(old)
        for _ in range(2):
            burst = Burst("burst-1", "mean", at(0))
            burst.picks = [Pick(n, 0, n, f"e{n}", 4, 1.0) for n in (9, 1, 0)]
            await judge_burst(writer, past, TASKS, burst)
            assert burst.changes == {"e9": None, "e0": None}
        tasks = [record.value async for record in past.read(TASKS)][1:]
        again = task_again(old, "burst-1")
        assert [JudgeTask.model_validate_json(one or b"") for one in tasks] == [old, again]
        assert (again.event_id, again.question, again.replay_id) == (old.event_id, old.question, "burst-1")
        assert again.result_id != old.result_id
