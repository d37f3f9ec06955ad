"""Another word on an alert, on demand: from the command over the observations to the monitor."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from benchmarks.words import CASES, Run
from schemas import Alert, Word
from streams.kafka.reader import TopicReader
from streams.kafka.record import Record
from streams.monitoring.forwarder import DEMAND, demanded, result_of
from streams.settings.broker import KafkaSettings, TopicSettings
from tests.streams.cli.processes import call, is_ours
from tests.streams.monitoring.test_partitions import OBSERVATIONS, Broker, monitors
from tests.streams.results import alert, at, scored
from tests.streams.store.records import Record as Stored
from tests.streams.store.records import StoreFile
from tests.threaded_broker import broker_in_thread

TOPICS = TopicSettings()
PRODUCT = next(case for case in CASES if case.name == "product -1")


def _alarmed() -> tuple[Run, Alert, Word]:
    run = Run(PRODUCT, Random(1))
    first, word = run.word()
    assert first is not None
    assert word is not None
    return run, first, word


def test_another_word_is_from_other_answers_old_and_live() -> None:
    run, first, before = _alarmed()
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
    ((again),) = said
    assert again.word is not None
    assert (again.alert_id, again.word.said) == (first.alert_id, "product")
    assert again.word.text != before.text


@pytest.mark.parametrize(
    "update",
    [{"kind": "recovered"}, {"labels": {"app": "a"}}, {"fingerprint": "unknown"}, {"measure": "mix"}],
    ids=str,
)
def test_what_gets_no_word_begins_nothing(update: dict[str, object]) -> None:
    run, first, _ = _alarmed()
    run.monitor.judge_again(first.model_copy(update=update), at(0))
    assert all(not series.bursts for series in run.monitor.series.values())


async def test_the_monitor_takes_a_demand_from_its_observations() -> None:
    """Whatever it has; a record that only says so is skipped."""
    run, first, _ = _alarmed()
    held = monitors(broker := Broker())
    await broker.observation(scored(0, 4))
    await held.handle(broker.logs[OBSERVATIONS][0])
    ((_, one),) = held._held.items()
    one.monitor = run.monitor
    for offset, value in enumerate((b"no alert", first.model_dump_json().encode()), 1):
        record = Record(OBSERVATIONS, 0, offset, at(9).timestamp(), b"m", value, ((DEMAND, b""),))
        assert result_of(record) is None
        await held.handle(record)
        (series,) = run.monitor.series.values()
        assert len(series.bursts) == offset - 1


def test_the_command_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fell = alert("a" * 32)
    part = alert("b" * 32, labels={"app": "docs"}, seconds=90_000)
    for name, one in (("whole", fell), ("part", part)):
        StoreFile(tmp_path / name).write(Stored(TOPICS.alerts, 0, 0, one.model_dump_json().encode()))
    with broker_in_thread(topics={TOPICS.observations: 1}) as servers:
        for name in filter(is_ours, list(os.environ)):
            monkeypatch.delenv(name)
        monkeypatch.setenv("JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS", servers)
        assert call("incident", "latest", "--rejudge", "--store", str(tmp_path / "whole")) == 0
        assert "relevance: old answers are judged again" in capsys.readouterr().err
        assert call("incident", "latest", "--rejudge", "--store", str(tmp_path / "part")) == 2
        assert "has no drop of all answers" in capsys.readouterr().err

        async def sent() -> list[Record]:
            reader = TopicReader(KafkaSettings(bootstrap_servers=servers), fetch_bytes=1 << 20)
            return [record async for record in reader.read(TOPICS.observations)]

        (record,) = asyncio.run(sent())
    assert (record.key, demanded(record)) == (b"relevance", fell)
