"""One hostile record among a thousand, with two workers: no event and no reply delays the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from judge.metrics.prompting import parse_fenced
from judge.text.redaction import KINDS
from schemas import RESULT, DeadLetter
from tests.integration.admin import kafka_admin
from tests.integration.conftest import RunningBroker
from tests.integration.deadlines import until
from tests.integration.processes import process
from tests.integration.stage import Stage
from tests.judge.fake_openai import completed, serving_completions
from tests.judge.replies import coverage_reply, listed_claim, listed_item, relevance_reply
from tests.robustness import corpus

EVENTS: Final = 1_000
MAX_RSS_MIB: Final = 400
MAX_RATIO: Final = 2.0
"""The highest ratio of the others' time to the undisturbed time."""
SLACK_SECONDS: Final = 2.0
"""The difference between equal runs on a busy machine."""
SECONDS: Final = 120.0
_PARTITIONS: Final = 4
_LARGE: Final = "20000000"

Fields = dict[str, Any]
_CHANGES: Final[Fields] = {
    "metrics": {"coverage": {}, "relevance": {}},
    "judge.redact": list(KINDS),
    "judge.max_in_flight": 32,
}


def _page(text: str) -> Fields:
    return {"answer": "Rain fell on 3 days. Evidence: [Page 1]", "context": {"Page-1": text}}


def _answer(text: str) -> Fields:
    return {"answer": text, "context": {"Page-1": "Rain fell on 3 days."}}


def hostile_records() -> dict[str, Fields]:
    return {
        "8 KB of colons as id": {"event_id": ":" * 8_000},
        "120 KB of marks in a page tag": _answer("Rain fell [Page 1 e" + "\u0301\u0316" * 60_000 + "]."),
        "400 KB of U+FDFA in a page tag": _answer("Rain fell [Page 1" + "\ufdfa" * 400_000 + "]."),
        "15 KB of dots": _answer(f"Rain {'.' * 15_000}x [Page 1]"),
        "240 KB of web tokens": _page("-eyJ" * 60_000),
        "30 KB of tables on one line": {
            "answer": f"{corpus.text('tables', 30_000)} [Page 1]",
            "context": {"Page-1": corpus.text("table cells", 30_000)},
        },
        "66 KB of words of one stem": {
            "answer": f"{corpus.text('one stem', 66_000)} [Page 1]",
            "reference": corpus.text("one stem", 66_000),
            "context": {"Page-1": corpus.text("one stem", 66_000)},
        },
        "75 KB of an ordinary answer": {
            "answer": corpus.text("different tags", 75_000),
            "context": {f"Page-{number}": corpus.text("different sentences", 2_000) for number in range(500)},
        },
        "0.9 MB of U+FDFA on a page": _page("\ufdfa" * 300_000),
        "3.9 MB of Korean pages": {
            "answer": "".join(f"Rain fell [Page {number}]. " for number in range(10)),
            "context": {f"Page-{number}": corpus.text("different Korean", 130_000) for number in range(10)},
        },
        "200 KB of percent signs and numbers": _answer(f"{corpus.text('percent', 190_000)} [Page 1]"),
        "1 MB of different signs": _page(corpus.text("different signs", 330_000)),
        "1 MB of joiners": _page("\u200b" * 330_000),
        "500,000 labels": {"labels": {str(number): {} for number in range(500_000)}},
        "4 MB of empty messages": {"messages": [{}] * 1_000_000},
        "1,300,000 numbers for pages": {"context": [1] * 1_300_000},
        "a reply of 900 KB of nested JSON": {"question": "REPLY nested JSON?"},
        "a reply of 900 KB of nested lists": {"question": "REPLY nested lists?"},
        "a reply of 900 KB of dots": {"question": "REPLY dots?"},
        "a reply of 900 KB of objects": {"question": "REPLY objects?"},
        "a reply of 2 MB": {"question": "REPLY letters?"},
    }


def honest(number: int, run: int) -> Fields:
    return {
        "event_id": f"r{run}-e{number}",
        "question": "On how many days did rain fall?",
        "answer": f"Rain fell on {number} days. Evidence: [Page 1]",
        "reference": f"Rain fell on {number} days.",
        "context": {"Page-1": f"In May rain fell on {number} days. It was warm."},
    }


def _reply(request: dict[str, Any]) -> str:
    """A judge's reply that quotes its input, or the reply that the event requests."""
    sections = parse_fenced(request["messages"][-1]["content"])
    question, answer = sections.get("question", ""), sections.get("answer", "")
    if question.startswith("REPLY "):
        kind = question.removeprefix("REPLY ").removesuffix("?")
        return corpus.text(kind, 2_000_000 if kind == "letters" else 900_000)
    pieces = [answer[start : start + 400] for start in range(0, min(len(answer), 8_000), 400)]
    if "reference" in sections:
        reference = sections["reference"][:400]
        return json.dumps(coverage_reply([listed_item(reference, piece, name=piece) for piece in pieces]))
    page = sections.get("Page-1", "")[:400]
    return json.dumps(relevance_reply([listed_claim(piece, [1], page) for piece in pieces]))


async def _answer_with_it(request: web.Request) -> web.Response:
    return completed(_reply(await request.json()))


def _resident_mib(process: int) -> float:
    pages = 0
    for one in _tree(process):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{one}/statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


def _tree(process: int) -> Iterator[int]:
    """A process and its children, except one that was just forked and shares its parent's memory."""
    yield process
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text("utf-8").split():
                if Path(f"/proc/{child}/cmdline").read_bytes() != command:
                    yield from _tree(int(child))


class Outcomes:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.results: dict[str, dict[str, str]] = {}
        self.dead: dict[tuple[int, int], str] = {}

    async def follow(self) -> None:
        scores, dead = self._stage.topic("scores"), self._stage.topic("dead")
        limits = {"max_partition_fetch_bytes": int(_LARGE), "fetch_max_bytes": 3 * int(_LARGE)}
        options = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **limits}
        async with AIOKafkaConsumer(bootstrap_servers=self._stage.bootstrap_servers, **options) as consumer:
            consumer.assign([TopicPartition(name, n) for name in (scores, dead) for n in range(_PARTITIONS)])
            async for record in consumer:
                if record.topic == scores:
                    result = RESULT.validate_json(record.value)
                    unscored = getattr(result, "error_type", None) or getattr(result, "reason", None)
                    said = unscored or result.status
                    self.results.setdefault(result.event_id, {})[result.metric] = said
                else:
                    letter = DeadLetter.model_validate_json(record.value)
                    self.dead[letter.partition, letter.offset] = letter.reason

    def is_done(self, ids: set[str]) -> bool:
        return all(len(self.results.get(one, ())) == 2 for one in ids)


async def members(stage: Stage) -> set[str]:
    async with kafka_admin(stage.bootstrap_servers) as admin:
        described = await admin.describe_consumer_groups([stage.settings.kafka.group_id])
        return {member[0] for member in described[0].groups[0][5]}


async def _produce(stage: Stage, run: int, hostile: Fields | None) -> tuple[int, int] | None:
    topic, place = stage.topic("events"), None
    async with AIOKafkaProducer(
        bootstrap_servers=stage.bootstrap_servers, max_request_size=int(_LARGE), compression_type="gzip"
    ) as producer:
        for number in range(EVENTS):
            partition = number % _PARTITIONS
            if hostile is not None and number == EVENTS // 2:
                value = json.dumps({**honest(number, run), "event_id": f"hostile-{run}", **hostile}).encode()
                sent = await producer.send_and_wait(topic, value, key=b"h", partition=partition)
                place = (sent.partition, sent.offset)
                continue
            value = json.dumps(honest(number, run)).encode()
            await producer.send(topic, value, key=b"k%d" % number, partition=partition)
    return place


@pytest.mark.timeout(900)
@pytest.mark.parametrize("broker", [pytest.param("apache", marks=pytest.mark.kafka)], indirect=True)
async def test_one_record_delays_no_other(broker: RunningBroker, tmp_path: Path) -> None:
    """The others take at most twice the time, the group keeps its members, and memory stays bounded."""
    memory: dict[str, int] = {}
    ratios: dict[str, float] = {}
    records = hostile_records()
    async with serving_completions(_answer_with_it) as base_url, contextlib.AsyncExitStack() as running:
        stage = Stage(broker.bootstrap_servers, tmp_path, base_url=base_url, changes=_CHANGES)
        for topic in ("events", "tasks.coverage", "tasks.relevance", "scores", "dead"):
            broker.create_topic(stage.topic(topic), _PARTITIONS, max_message_bytes=_LARGE)
        logs = ("worker0.log", "worker1.log")
        processes = [await running.enter_async_context(process(stage, log=log)) for log in logs]
        outcomes = Outcomes(stage)
        following = asyncio.create_task(outcomes.follow())

        async def both_in() -> bool:
            return len(await members(stage)) == 2

        await until(both_in, "two members")
        before = await members(stage)
        undisturbed = 1.0
        for run, (name, hostile) in enumerate([("warm-up", None), ("undisturbed", None), *records.items()]):
            began = time.perf_counter()
            place = await _produce(stage, run, hostile)
            ids = {honest(number, run)["event_id"] for number in range(EVENTS)}
            if hostile is not None:
                ids.discard(honest(EVENTS // 2, run)["event_id"])

            highest_mib = 0.0

            def ended(ids: set[str], place: tuple[int, int] | None = None) -> bool:
                nonlocal highest_mib
                highest_mib = max(highest_mib, *(_resident_mib(one.pid) for one in processes))
                return place in outcomes.dead or outcomes.is_done(ids)

            await until(partial(ended, ids), f"all others of {name}", deadline_seconds=SECONDS)
            seconds = time.perf_counter() - began
            hostile_id = None if hostile is None else hostile.get("event_id", f"hostile-{run}")
            own = set() if hostile_id is None else {hostile_id}
            await until(partial(ended, own, place), f"an outcome of {name}", deadline_seconds=SECONDS)
            if name == "undisturbed":
                undisturbed = seconds
            outcome = outcomes.dead.get(place or (-1, -1)) or outcomes.results.get(hostile_id or "")
            if hostile is not None and seconds > MAX_RATIO * undisturbed + SLACK_SECONDS:
                # The load of the machine may have changed: measure again without the record.
                again = time.perf_counter()
                await _produce(stage, 1_000 + run, None)
                others = {honest(number, 1_000 + run)["event_id"] for number in range(EVENTS)}
                await until(
                    partial(outcomes.is_done, others), "the same undisturbed", deadline_seconds=SECONDS
                )
                undisturbed = time.perf_counter() - again
            ratios[name] = (seconds - SLACK_SECONDS) / undisturbed
            memory[name] = round(highest_mib)
            row = {"record": name, "seconds": round(seconds, 2), "rss_mib": memory[name], "outcome": outcome}
            print(json.dumps(row), flush=True)  # noqa: T201 - the table of docs/robustness.md, with -s
        assert await members(stage) == before
        assert [one.returncode for one in processes] == [None, None]
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
    assert {name: mib for name, mib in memory.items() if mib > MAX_RSS_MIB} == {}
    assert {name: ratio for name, ratio in ratios.items() if ratio > MAX_RATIO and name in records} == {}
