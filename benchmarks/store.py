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
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.report import Line
from judge.library import Judge
from streams.cli.running import SWITCH_SECONDS
from streams.demo.events import load_questions, make_record
from streams.kafka.following import MAX_RECORDS
from streams.settings import TopicSettings
from streams.store import sums, verdicts
from streams.store.database import file_bytes
from streams.store.decoding import Decoder
from streams.store.filters import Filter
from streams.store.reader import Asking, Reader
from streams.store.writer import Writer

VERDICTS: Final = int(os.environ.get("JUDGESTREAM_STORE_VERDICTS", "1000000"))
BATCH: Final = MAX_RECORDS // 2
DAYS: Final = 30
RUNS: Final = 5
INGEST_AIM: Final = 5_000
PAGE_AIM_MILLISECONDS: Final = 200


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
        yield from _duckdb(records, Path(folder))


def _sqlite(records: Records, folder: Path) -> Iterator[dict[str, object]]:
    path = folder / "store.sqlite3"
    decoder = Decoder(TopicSettings(), ("coverage", "relevance"), "full")
    writer = Writer(path)
    spent = cpu = 0.0
    sys.setswitchinterval(SWITCH_SECONDS)
    with ThreadPoolExecutor(
        1
    ) as pool:  # as in the agent, a batch is decoded while the previous one is written
        writing: Future[int] | None = None
        for some in records.batches():
            start, used = time.perf_counter(), time.process_time()
            positions = {(one.topic, one.partition): one.offset + 1 for one in some}
            batch = decoder.batch(some, positions, oldest=0)
            if writing is not None:
                writing.result()
            writing = pool.submit(writer.write, batch)
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
    reader = Reader(path, longest_seconds=60)
    for name, ask in _questions():
        with reader.asking() as asking:
            taken, rows = _milliseconds(lambda asking=asking, ask=ask: ask(asking))  # type: ignore[misc]
        yield Line(
            f"store: {name}, SQLite",
            taken,
            "ms",
            aim=f"below {PAGE_AIM_MILLISECONDS} ms",
            met=taken < PAGE_AIM_MILLISECONDS,
            note=f"{rows} rows",
        ).as_json()
    reader.close()


def _questions() -> Sequence[tuple[str, Callable[[Asking], int]]]:
    """Return the queries of the explorer's pages."""
    now = int(time.time() * 1000)
    day = 86_400_000
    relevance = Filter(metric="relevance", status="scored")
    label = Filter(metric="relevance", status="scored", labels=(("prompt_version", "v7"),))

    def listed(wanted: Filter, order: str = "worst", skip: int = 0) -> Callable[[Asking], int]:
        return lambda asking: len(verdicts.page(asking, wanted, order=order, limit=50, skip=skip).rows)

    def drawn(wanted: Filter, days: float) -> Callable[[Asking], int]:
        since = round(now - days * day)
        return lambda asking: len(
            sums.series(asking, wanted, since=since, until=now, step=sums.step_of(since, now))
        )

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
        ("chart of 5 days", drawn(Filter(), 5)),
        ("chart of 6 hours", drawn(Filter(), 0.25)),
        ("scores, all", lambda asking: len(sums.distribution(asking, Filter()))),
        ("means by label, all", lambda asking: len(sums.by_label(asking, Filter()))),
        ("cost a day", lambda asking: len(sums.daily_cost(asking, Filter()))),
        ("one verdict with its texts", _first_verdict),
    )  # fmt: skip


def _first_verdict(asking: Asking) -> int:
    row = asking.row("SELECT hex(result_id) FROM verdicts WHERE id = 4711")
    return int(row is not None and verdicts.one(asking, row[0].lower()) is not None)


def _duckdb(records: Records, folder: Path) -> Iterator[dict[str, object]]:
    try:
        import duckdb  # noqa: PLC0415 - measured where it is installed
    except ImportError:
        print("duckdb is not installed: only SQLite is measured", file=sys.stderr)
        return
    path = folder / "store.duckdb"
    db = duckdb.connect(str(path))
    db.execute("SET preserve_insertion_order = false")
    db.execute(
        "CREATE TABLE verdicts (result_id VARCHAR PRIMARY KEY, event_id VARCHAR, metric VARCHAR, evaluator "
        "VARCHAR, "
        "labels MAP(VARCHAR, VARCHAR), status VARCHAR, score TINYINT, moment TIMESTAMP, probability "
        "DOUBLE, cost DOUBLE, "
        "corrected INTEGER, body VARCHAR); "
        "CREATE TABLE texts (result_id VARCHAR PRIMARY KEY, question VARCHAR, answer VARCHAR, reference "
        "VARCHAR, context VARCHAR)"
    )
    spent = 0.0
    for some in records.batches():
        start = time.perf_counter()
        _duckdb_batch(db, some)
        spent += time.perf_counter() - start
    db.execute("CHECKPOINT")
    rate, size = VERDICTS / spent, path.stat().st_size
    yield Line(
        f"store: {VERDICTS} verdicts with their texts taken in, DuckDB",
        round(rate),
        "verdicts/s",
        note=f"file {size / 2**20:.0f} MiB, {size / VERDICTS:.0f} bytes a verdict",
    ).as_json()
    for name, sql in _DUCKDB_QUESTIONS:
        taken, rows = _milliseconds(lambda sql=sql: len(db.execute(sql).fetchall()))  # type: ignore[misc]
        yield Line(f"store: {name}, DuckDB", taken, "ms", note=f"{rows} rows").as_json()
    db.close()


def _duckdb_batch(db: Any, some: Sequence[Record]) -> None:
    """Insert with one list per column, the fastest way without further packages."""
    results: list[tuple[Any, str]] = []
    tasks: list[tuple[Any, str]] = []
    for one in some:
        value = json.loads(one.value)
        (results if one.topic == "qa.scores" else tasks).append((value, one.value.decode()))
    columns = list(
        zip(
            *(
                (
                    value["result_id"], value["event_id"], value["metric"], value["evaluator"]["fingerprint"],
                    json.dumps(value["labels"]), value["status"], value.get("score"),
                    value["times"]["occurred_at"],
                    value["sampling"]["probability"], value["cost_usd"], len(value.get("corrections", ())),
                    text,
                )
                for value, text in results
            ),
            strict=True,
        )
    )  # fmt: skip
    db.execute("BEGIN")
    db.execute(
        "INSERT INTO verdicts SELECT unnest(?), unnest(?), unnest(?), unnest(?), "
        "unnest(?::VARCHAR[])::JSON::MAP(VARCHAR, VARCHAR), unnest(?), unnest(?), "
        "unnest(?::VARCHAR[])::TIMESTAMP, unnest(?), "
        "unnest(?), unnest(?), unnest(?) ON CONFLICT DO NOTHING",
        [list(column) for column in columns],
    )
    texts = list(
        zip(
            *(
                (
                    value["result_id"],
                    value["question"],
                    value["answer"],
                    value["reference"],
                    json.dumps(value["context"]),
                )
                for value, _ in tasks
            ),
            strict=True,
        )
    )
    db.execute(
        (
            "INSERT INTO texts SELECT unnest(?), unnest(?), unnest(?), unnest(?), unnest(?) ON "
            "CONFLICT DO NOTHING"
        ),
        [list(column) for column in texts],
    )
    db.execute("COMMIT")


_SIX: Final = (
    "sum(1/probability), sum(score/probability), sum(score*score/probability), sum(1/probability/probability)"
)
_DUCKDB_QUESTIONS: Final = (
    ("list, worst of all",
        "SELECT * FROM verdicts WHERE status = 'scored' ORDER BY score, moment DESC LIMIT 50"),
    ("list, worst with a label", (
            "SELECT * FROM verdicts WHERE status = 'scored' AND metric = 'relevance' AND "
            "labels['prompt_version'] = 'v7' ORDER BY score, moment DESC LIMIT 50"
        )),
    ("list, words that few texts have", (
            "SELECT * FROM verdicts JOIN texts USING (result_id) WHERE answer ILIKE '%dustwren%' AND "
            "answer ILIKE '%filter%' ORDER BY score, moment DESC LIMIT 50"
        )),
    ("chart of 30 days",
        f"SELECT date_trunc('day', moment) d, metric, evaluator, {_SIX} FROM verdicts GROUP BY ALL"),
    ("means by label, all", f"SELECT metric, labels, {_SIX} FROM verdicts GROUP BY ALL"),
    ("one verdict with its texts", (
            "SELECT * FROM verdicts JOIN texts USING (result_id) WHERE result_id = (SELECT result_id FROM "
            "verdicts LIMIT 1)"
        )),
)  # fmt: skip


def _milliseconds(ask: Callable[[], int]) -> tuple[float, int]:
    taken, rows = [], 0
    for _ in range(RUNS):
        start = time.perf_counter()
        rows = ask()
        taken.append(time.perf_counter() - start)
    return round(median(taken) * 1000, 1), rows


if __name__ == "__main__":
    for line in run():
        print(json.dumps(line), flush=True)
