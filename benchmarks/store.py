"""The verdict store with 1,000,000 verdicts: ingest rate, time of each page, file size.

Results and texts are from the demo's questions, judged by the offline judge, with varied ids, times, labels
and scores; two metrics, 24 common label combinations, 30 days. DuckDB, if installed, is measured for
comparison.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.report import Line
from judge.library import Judge
from streams.cli.running import SWITCH_SECONDS
from streams.demo.events import load_questions, make_record
from streams.kafka.reader import MAX_RECORDS
from streams.settings.broker import TopicSettings
from streams.store import charts, verdicts
from streams.store.agent import StoreWriter
from streams.store.database import Snapshot, file_bytes, read_store
from streams.store.query import Filter, Filtered
from streams.store.records import Decoder

VERDICTS: Final = int(os.environ.get("JUDGESTREAM_STORE_VERDICTS", "1000000"))
BATCH: Final = MAX_RECORDS // 2
DAYS: Final = 30
RUNS: Final = 5
INGEST_AIM: Final = 1_500
PAGE_AIM_MILLISECONDS: Final = 500


@dataclass(frozen=True, slots=True)
class Record:
    """A record as returned by a consumer."""

    topic: str
    partition: int
    offset: int
    value: bytes


class Records:
    """Builds records from a few hundred judged answers."""

    def __init__(self) -> None:
        self._topics = TopicSettings()
        self._templates = asyncio.run(_judged())
        self._start = datetime.now(UTC) - timedelta(days=DAYS)

    def batches(self) -> Iterator[list[Record]]:
        """Yield results and their tasks in batches of `BATCH` results."""
        for first in range(0, VERDICTS, BATCH):
            yield [
                record
                for number in range(first, min(first + BATCH, VERDICTS))
                for record in self._pair(number)
            ]

    def _pair(self, number: int) -> tuple[Record, Record]:
        metric, result, task = self._templates[number % len(self._templates)]
        digest = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=16).hexdigest()
        at = (self._start + timedelta(seconds=number * DAYS * 86_400 / VERDICTS)).isoformat()
        label = f"v{number % 24}"
        filled = [
            text.replace("@ID@", digest)
            .replace("@EVENT@", f"event-{number}")
            .replace("@AT@", at)
            .replace("@V@", label)
            for text in (task, result)
        ]
        return (
            Record(self._topics.task_topic(metric), 0, number, filled[0].encode()),
            Record(self._topics.scores, 0, number, filled[1].encode()),
        )


async def _judged() -> list[tuple[str, str, str]]:
    """Judge answers of the demo; return metric, result and task with placeholders."""
    questions = load_questions()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    found = []
    judge = Judge()
    for index in range(300):
        record = make_record(questions, index, worse=index % 2 == 0, occurred_at=now)
        try:
            event = json.loads(record.value)
            event["labels"]
        except (ValueError, KeyError):
            continue
        for metric in ("relevance", "coverage"):
            if metric == "coverage" and "reference" not in event:
                continue
            result = json.loads((await judge.score(event, metric)).model_dump_json())
            shared = {
                "result_id": "@ID@",
                "event_id": "@EVENT@",
                "labels": event["labels"] | {"prompt_version": "@V@"},
            }
            result |= shared | {
                "times": dict.fromkeys(("occurred_at", "sampled_at", "judged_at"), "@AT@")
                | {"judge_seconds": 1.0}
            }
            pages = {
                name: text
                for name, text in event.get("context", {}).items()
                if f"[{name.replace('-', ' ')}]" in event["answer"]
            }
            task = {
                "schema_version": 1, **shared, "metric": metric, "source": result["source"],
                "question": event["question"], "answer": event["answer"],
                "reference": event.get("reference") if metric == "coverage" else None,
                "context": pages if metric == "relevance" else None,
                "sampling": result["sampling"], "occurred_at": "@AT@", "sampled_at": "@AT@",
            }  # fmt: skip
            found.append(
                (metric, json.dumps(result, ensure_ascii=False), json.dumps(task, ensure_ascii=False))
            )
    await judge.close()
    return found


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one record per number."""
    records = Records()
    with tempfile.TemporaryDirectory() as folder:
        yield from _sqlite(records, Path(folder))


def _sqlite(records: Records, folder: Path) -> Iterator[dict[str, object]]:
    path = folder / "store.sqlite3"
    decoder = Decoder(TopicSettings(), ("coverage", "relevance"), "full")
    writer = StoreWriter(path)
    spent = cpu = 0.0
    sys.setswitchinterval(SWITCH_SECONDS)
    for some in records.batches():
        start, used = time.perf_counter(), time.process_time()
        positions = {(one.topic, one.partition): one.offset + 1 for one in some}
        writer.write(decoder.batch(some, positions, oldest=0))
        spent += time.perf_counter() - start
        cpu += time.process_time() - used
    writer.close()
    rate = VERDICTS / spent
    size = file_bytes(path)
    yield Line(
        f"store: {VERDICTS} verdicts with their texts taken in, SQLite",
        round(rate),
        "verdicts/s",
        aim=f"at least {INGEST_AIM}",
        met=rate >= INGEST_AIM,
        note=(
            f"file {size / 2**20:.0f} MiB, {size / VERDICTS:.0f} bytes a verdict; "
            f"{1e6 * cpu / VERDICTS:.0f} us of CPU a verdict"
        ),
    ).as_json()
    for name, ask in _questions():

        def asked(ask: Any = ask) -> Any:
            with read_store(path, 60) as snapshot:  # a connection for each, as a page has it
                return ask(snapshot)

        taken, rows = _milliseconds(asked)
        yield Line(
            f"store: {name}, SQLite",
            taken,
            "ms",
            aim=f"below {PAGE_AIM_MILLISECONDS} ms",
            met=taken < PAGE_AIM_MILLISECONDS,
            note=f"{rows} rows",
        ).as_json()


def _questions() -> Sequence[tuple[str, Callable[[Snapshot], int]]]:
    """Return the queries of the explorer's pages."""
    now = int(time.time() * 1000)
    day = 86_400_000
    relevance = Filter(metric="relevance", status="scored")
    label = Filter(metric="relevance", status="scored", labels=(("prompt_version", "v7"),))

    def listed(wanted: Filter, order: str = "worst", skip: int = 0) -> Callable[[Snapshot], int]:
        return lambda snapshot: len(verdicts.page(snapshot, wanted, order=order, limit=50, skip=skip)["rows"])

    def drawn(wanted: Filter, days: float, *, parts: bool = False) -> Callable[[Snapshot], int]:
        since = round(now - days * day)
        wanted = replace(wanted, since=since)
        draw, key = (charts.by_label, "labels") if parts else (charts.charts, "lines")
        return lambda snapshot: len(draw(snapshot, wanted, lambda _: (0.0, 5.0))[key])

    recent = Filter(status="scored", since=now - day)
    return (
        ("list, worst of all", listed(Filter(status="scored"))),
        ("list, page 100 of one metric", listed(relevance, skip=5_000)),
        ("list, newest", listed(Filter(), "newest")),
        ("list, worst with a label", listed(label)),
        ("list, worst of the last day", listed(recent)),
        ("list, a label and a score that are rare", listed(Filter(status="scored",
            labels=(("prompt_version", "v7"), ("tenant", "gold"), ("app", "travel")), lowest=3, highest=3))),
        ("list, corrected", listed(Filter(status="scored", correction="any"))),
        ("list, words that most texts have", listed(Filter(status="scored", words=("the",)))),
        ("list, words that few texts have", listed(Filter(status="scored", words=("dustwren", "filter")))),
        ("list, one event", listed(Filter(event_id="event-4711"))),
        ("chart of 30 days", drawn(Filter(), 30)),
        ("chart of 30 days with a label", drawn(label, 30)),
        ("means by label of 30 days", drawn(Filter(), 30, parts=True)),
        ("chart of 5 days", drawn(Filter(), 5)),
        ("chart of 6 hours", drawn(Filter(), 0.25)),
        ("chart of 7 days", drawn(Filter(), 7)),
        ("count of all", lambda snapshot: Filtered(snapshot, Filter()).count()),
        ("choices", lambda snapshot: len(charts.choices(snapshot))),
        ("list, costly", listed(Filter(), "costly")),
        ("one verdict with its texts", _first_verdict),
    )  # fmt: skip


def _first_verdict(snapshot: Snapshot) -> int:
    row = snapshot.execute("SELECT hex(result_id) FROM results WHERE id = 4711").fetchone()
    return int(row is not None and verdicts.one(snapshot, row[0].lower()) is not None)


def _milliseconds(ask: Callable[[], int]) -> tuple[float, int]:
    taken, rows = [], 0
    for _ in range(RUNS):
        start = time.process_time()
        rows = ask()
        taken.append(time.process_time() - start)
    return round(median(taken) * 1000, 1), rows


if __name__ == "__main__":
    for line in run():
        print(json.dumps(line), flush=True)
