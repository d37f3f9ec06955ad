"""`judgestream replay`, by which dead letters are sent again, and `anchors`: which answers are taken."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidTimestampError

from schemas import Anchor, DeadLetter, Header, JudgeTask
from streams.cli.past import Candidates, _line, _Saved, _status, _task, choose, worse_half
from streams.embedded.partition import PartitionLog
from streams.embedded.topics import Topic
from streams.kafka.dead_letters import Query
from streams.kafka.reader import TopicReader
from streams.kafka.record import Record
from streams.monitoring.anchors import AnchorWatch, Enrolment, anchor_id
from streams.monitoring.config import mean_of
from streams.settings.broker import KafkaSettings
from streams.store.records import text_row, unpacked
from tests.streams.cli.conftest import Command
from tests.streams.cli.processes import running
from tests.streams.results import at, scored, task_of
from tests.threaded_broker import broker_in_thread

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def letter(number: int, **fields: Any) -> DeadLetter:
    place = {"topic": "qa.events", "partition": 0, "offset": number, "timestamp": NOON}
    record = {"key": b"k%d" % number, "value": b"\x00original %d" % number, "value_bytes": 11}
    why = {"reason": "unroutable", "detail": "no metric's conditions fit"}
    times = {"failed_at": NOON + timedelta(minutes=number)}
    headers = {"headers": (Header(name="h", value=b"v"),)}
    return DeadLetter.model_validate(place | record | why | times | headers | fields)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Query(), [0, 1, 2]),
        (Query(reasons=["undecodable"]), [2]),
        (Query(topics=["elsewhere"]), []),
        (Query(since=NOON + timedelta(minutes=1)), [1, 2]),
        (Query(since=NOON, until=NOON + timedelta(minutes=1)), [0]),
    ],
)
def test_which_dead_letters_are_wanted(wanted: Query, numbers: list[int]) -> None:
    letters = [letter(0), letter(1), letter(2, reason="undecodable")]
    assert [index for index, one in enumerate(letters) if wanted.fits(one)] == numbers


def test_originals_are_sent_again_as_they_were(command: Command) -> None:
    """Truncated and unreadable dead letters are counted and not sent."""
    with broker_in_thread(topics={"qa.events": 1, "qa.dead-letters": 2}) as servers:
        letters = [letter(0), letter(1, reason="undecodable"), letter(2, truncated=True)]
        asyncio.run(_send(servers, [*(one.model_dump_json().encode() for one in letters), b"nonsense"]))
        call = ("replay", "--dead-letters", "--bootstrap-servers", servers)
        asked = command(*call)
        asked.fails("1 records of qa.events, set aside as unroutable", "Send 2 records again? add --yes")
        sent = command(*call, "--yes", "--json").done()
        assert json.loads(sent.out) == {
            "found": 2,
            "sent": 2,
            "refused": 0,
            "cut": 1,
            "unreadable": 1,
            "by_topic": [
                {"topic": "qa.events", "reason": "undecodable", "count": 1},
                {"topic": "qa.events", "reason": "unroutable", "count": 1},
            ],
        }
        records = asyncio.run(_read(servers))
    assert {(one.key, one.value, one.timestamp) for one in records} == {
        (b"k0", b"\x00original 0", NOON.timestamp()),
        (b"k1", b"\x00original 1", NOON.timestamp()),
    }
    assert {name for one in records for name, _ in one.headers} == {"h", "judgestream-sent-again"}


def test_a_refused_record_does_not_cost_those_before_it(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Topic.append

    def refusing(topic: Topic, partition: PartitionLog, data: Any) -> int:
        if b"original 2" in bytes(data):
            raise InvalidTimestampError("too old")
        return append(topic, partition, data)

    monkeypatch.setattr(Topic, "append", refusing)
    with broker_in_thread(topics={"qa.events": 1, "qa.dead-letters": 1}) as servers:
        asyncio.run(_send(servers, [letter(number).model_dump_json().encode() for number in range(3)]))
        ended = command("replay", "--dead-letters", "--bootstrap-servers", servers, "--yes")
        records = asyncio.run(_read(servers))
    ended.fails("the broker refused 1 of the records", "  qa.dead-letters/0/2: InvalidTimestamp", code=1)
    assert [one.value for one in records] == [b"\x00original 0", b"\x00original 1"]


async def _send(servers: str, values: Sequence[bytes]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    for value in values:
        await producer.send_and_wait("qa.dead-letters", value, key=value[-9:])
    await producer.stop()


async def _read(servers: str) -> list[Record]:
    reader = TopicReader(KafkaSettings(bootstrap_servers=servers))
    return [record async for record in reader.read("qa.events")]


@pytest.fixture
def replaying(tmp_path: Path, written: Callable[..., Path]) -> Iterator[Callable[..., Sequence[str]]]:
    """A function that returns the arguments of a replay of one event, with a judge at this address."""
    events = tmp_path / "events.jsonl"
    events.write_text(json.dumps({"question": "Where?", "answer": "Here.", "reference": "Here."}))
    with broker_in_thread(topics={"qa.events": 1, "qa.scores": 1}) as servers:

        def arguments(url: str, *options: str) -> Sequence[str]:
            config = written(
                kafka={"bootstrap_servers": servers},
                metrics={"coverage": {}},
                judge={"endpoints": [{"name": "main", "base_url": url, "model": "m"}], "budget": "none"},
            )
            return "replay", "--events", str(events), "--config", str(config), "--yes", *options

        yield arguments


async def test_a_dead_judge_is_named_while_the_replay_waits(replaying: Callable[..., Sequence[str]]) -> None:
    async with running(*replaying("http://127.0.0.1:1/v1")) as replay:
        while "no judge is available" not in (said := await replay.error_line()):
            assert said
        assert "waiting up to 120 s for main (m at http://127.0.0.1:1/v1): start or correct it" in said
        ended = await replay.stop(signal.SIGINT)
    assert ended.code == 130, ended.err
    assert "stopped; continue with --resume replay-" in ended.err


def test_an_option_is_blamed_by_its_name(
    replaying: Callable[..., Sequence[str]], tmp_path: Path, command: Command
) -> None:
    bad, missing = tmp_path / "bad.yaml", tmp_path / "no.md"
    bad.write_text('messages: [{role: user, content: "{unknown_name}"}]')
    for options, words in (
        (("--pack", str(bad)), f"error: --pack {bad}: .*the placeholder {{unknown_name}} is unknown.*"),
        (("--pack", str(missing)), f"error: --pack {missing}: cannot be read .*"),
        (("--endpoint", "other"), "error: --endpoint: must be one of main, got 'other'"),
    ):
        ended = command(*replaying("http://127.0.0.1:1/v1", *options))
        assert ended.code == 2
        assert re.fullmatch(words, ended.err.splitlines()[-1])
        assert "settings" not in ended.err.splitlines()[-1]


def stored(task: JudgeTask, *, excerpt: bool = False) -> dict[str, Any]:
    """The verdict of a task, as the store returns it."""
    texts = unpacked(text_row(task, "excerpt" if excerpt else "full")[2])
    result = orjson.loads(scored(int(task.event_id.removeprefix("e")), 4).model_dump_json())
    return {"result": result, "texts": texts}


@pytest.mark.parametrize(
    "texts",
    [
        {"reference": "R", "context": {"Page-1": "text"}},
        {"other_answer": "another", "fields": {"policy": "p", "labels.app": "a"}},
    ],
)
def test_the_task_is_rebuilt_from_a_stored_verdict(texts: dict[str, Any]) -> None:
    task = task_of(scored(1, 4), **texts).model_copy(update={"sampled_at": at(1), "occurred_at": at(1)})
    assert _task(stored(task)) == task


def test_texts_that_are_cut_or_kept_for_people_make_no_task() -> None:
    task = task_of(scored(1, 4))
    assert _task(stored(task, excerpt=True)) is None
    assert _task({**stored(task), "texts": None}) is None
    talk = task_of(scored(1, 4), messages=({"role": "user", "content": "hi"},))
    assert _task(stored(talk)) is None


def test_up_to_half_of_the_answers_are_bad_ones_and_more_only_if_good_ones_lack() -> None:
    """On 1 to 5 the bad ones are below 3; where a rise is worse, above 3."""
    tasks = {anchor_id(task): task for task in (task_of(scored(n, 4)) for n in range(20))}
    found: Candidates = {key: (task, float(1 + n % 5)) for n, (key, task) in enumerate(tasks.items())}
    is_bad = worse_half((1, 5), rising=False)
    chosen = [score for _, score in choose(found, 8, is_bad).values()]
    assert sum(map(is_bad, chosen)) == 4
    assert len(choose(found, 100, is_bad)) == 20
    # 8 of the 20 are bad, so of 15 at least 3 are; the half, 7, is taken.
    assert sum(is_bad(score) for _, score in choose(found, 15, is_bad).values()) == 7
    bad = {key: one for key, one in found.items() if is_bad(one[1])}
    assert len(choose(bad, 8, is_bad)) == 8
    rises = worse_half((1, 5), rising=True)
    assert [rises(score) for score in (None, 2, 3, 4)] == [False, False, False, True]


def test_status_tells_a_changed_evaluator_from_a_short_fallback() -> None:
    evaluator, tasks = scored(1, 4).evaluator, [task_of(scored(number, 4)) for number in range(30)]
    common: Any = {"metric": "relevance", "evaluator": evaluator, "scores": (4,) * 3, "enrolled_at": at(0)}
    anchors = [
        Anchor(anchor_id=task.result_id, task=task, known_bad=number < 9, **common)
        for number, task in enumerate(tasks)
    ]
    enrolment = Enrolment.of(anchors)
    watch = AnchorWatch(enrolment.since)
    watch.configure(enrolment, mean_of(1, 5, min_drop=0.1))
    for second in range(200):
        watch.add(anchors[second % 30], 3.0, at(second))
    saved = {"f1": _Saved(at(200), watch), "f2": _Saved(at(200) + timedelta(minutes=50))}
    line = _line(_status("relevance", enrolment, saved))
    shift, numbers = line.split("; ")
    assert shift == "relevance: stricter by 1.00 since 2025-03-14 14:00 UTC"
    assert numbers.startswith("30 anchors (9 bad), 200 calls, mean difference -1.00 (95%: -1.")
    saved["f2"] = _Saved(at(200) + timedelta(minutes=70))
    assert "void: its evaluator has changed;" in _line(_status("relevance", enrolment, saved))
    assert _status("relevance", enrolment, {})["judge"] == "no calls yet"
