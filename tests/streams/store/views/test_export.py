"""Verdicts as files, and SQL views that agree with the estimators."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from streams.errors import StreamsError
from streams.monitoring.statistics.estimators import WeightedSums
from streams.store import verdicts
from streams.store.database import read_store
from streams.store.query import Filter
from streams.store.views.export import COLUMNS, flat, sql, write_days, write_stream
from tests.streams.results import scored
from tests.streams.store.records import StoreFile, result_record
from tests.streams.store.views.serving import fill
from tests.toolbox import python_with, run


def statements(text: str) -> list[str]:
    """Return the statements of an SQL file, without semicolons and comments."""
    return [one.strip() for one in re.sub(r"(?m)^\s*--.*\n", "", text).split(";\n") if one.strip()]


def _rows(path: Path) -> list[dict[str, Any]]:
    with read_store(path) as snapshot:
        return [flat(row) for row in verdicts.every(snapshot, Filter())]


def test_a_row_has_every_column_in_every_format(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    rows = _rows(tmp_path / "s")
    assert len(rows) == 22
    assert all(list(row) == list(COLUMNS) for row in rows)
    as_json, as_csv = io.StringIO(), io.StringIO()
    assert write_stream(rows, as_json, "jsonl") == write_stream(rows, as_csv, "csv") == 22
    assert [json.loads(line) for line in as_json.getvalue().splitlines()] == rows
    table = list(csv.DictReader(io.StringIO(as_csv.getvalue())))
    assert [row["score"] for row in table] == [
        "" if row["score"] is None else str(row["score"]) for row in rows
    ]
    assert rows[0]["occurred_at"] == "2025-03-14 14:00:00.000"
    assert {row["status"] for row in rows if row["score"] is None} == {"unscored", "failed"}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_file_a_day(tmp_path: Path, form: Any) -> None:
    StoreFile(tmp_path / "s").write(
        *(result_record(scored(number, 3, seconds=number * 43_200.0), number) for number in range(6))
    )
    folder = tmp_path / "out"
    assert write_days(_rows(tmp_path / "s"), folder, form) == 6
    files = sorted(folder.glob("*/*"))
    assert [file.parent.name for file in files] == [f"day=2025-03-{day}" for day in (14, 15, 16, 17)]
    if form == "parquet":
        counts = [parquet.read_metadata(file).num_rows for file in files]
    else:
        counts = [len(file.read_text().splitlines()) - (form == "csv") for file in files]
    assert counts == [1, 2, 2, 1]
    with pytest.raises(StreamsError, match="not empty"):
        write_days([], folder, form)


_DUCKDB = """
import json, sys
import duckdb
db, statements = duckdb.connect(), json.load(open(sys.argv[1]))
for one in statements:
    db.execute(one)
def ask(view):
    found = db.execute(f"SELECT * FROM {view}")
    names = [column[0] for column in found.description]
    return [{name: str(value) if name == "day" else value for name, value in zip(names, row)} for row in found.fetchall()]
print(json.dumps({view: ask(view) for view in ("mean_by_day", "mean_by_label", "mean_by_day_and_label", "cost_by_day")}))
"""  # noqa: E501


@pytest.mark.tools
def test_duckdb_s_views_agree_with_the_estimators(tmp_path: Path) -> None:
    noise = random.Random(5)
    samples: dict[tuple[str, str], list[tuple[float, float]]] = {}
    records = []
    for number in range(400):
        score, probability = noise.randint(1, 5), noise.choice((0.05, 0.3, 1.0))
        app = "rare" if number == 7 else noise.choice(("few", *("many",) * 40))
        result = scored(number, score, probability=probability, labels={"app": app}, seconds=number * 600.0)
        records.append(result_record(result, number))
        for of in (("day", str(result.times.occurred_at.date())), ("app", app)):
            samples.setdefault(of, []).append((score, probability))
    StoreFile(tmp_path / "s").write(*records)
    folder = tmp_path / "out"
    assert write_days(_rows(tmp_path / "s"), folder, "parquet") == 400
    views, ask = tmp_path / "views.json", tmp_path / "ask.py"
    views.write_text(json.dumps(statements(sql("duckdb", folder=str(folder)))))
    ask.write_text(_DUCKDB)
    answers = json.loads(run(python_with("duckdb"), ask, views))
    assert len(answers["mean_by_day"]) == 4
    for kind, view, key in (("day", "mean_by_day", "day"), ("app", "mean_by_label", "value")):
        assert len(answers[view]) == len([one for one in samples if one[0] == kind])
        for row in answers[view]:
            expected = WeightedSums.of(samples[kind, row[key]])
            ends = expected.interval(lowest=1, highest=5)
            assert ends is not None
            assert row["judged"] == expected.count
            assert row["mean"] == pytest.approx(expected.mean)
            assert row["effective_count"] == pytest.approx(expected.effective_count)
            assert (row["low"], row["high"]) == pytest.approx(ends, abs=1e-6)


_CLICKHOUSE = """
import json, sys
from chdb.session import Session
statements, raw = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
session = Session(sys.argv[3])
for one in statements:
    session.query(one)
for offset, value in raw:
    escaped = value.replace("\\\\", "\\\\\\\\").replace("'", "\\\\'")
    session.query(f"INSERT INTO judgestream.results_queue VALUES ('{escaped}', {offset})")
print(session.query("SELECT result_id, score, labels['app'] AS app, corrections, toString(occurred_at) AS at FROM judgestream.verdicts ORDER BY event_id FORMAT JSONEachRow"))
print(session.query("SELECT judged, mean FROM judgestream.mean_by_day FORMAT JSONEachRow"))
"""  # noqa: E501


@pytest.mark.tools
def test_clickhouse_keeps_the_first_of_a_result(tmp_path: Path) -> None:
    """Here (chdb) it has no Kafka engine: a table with the same columns and the offset replaces the queue."""
    first, second = scored(1, 4, labels={"app": "it's"}), scored(2, 2, probability=0.5)
    lowered = second.model_dump(mode="json") | {"corrections": [{"kind": "score_lowered", "detail": ""}]}
    records = [
        (0, first.model_dump_json()),
        (5, scored(1, 1).model_dump_json()),
        (9, json.dumps(lowered)),
        (3, scored(1, 2).model_dump_json()),
    ]
    made = statements(sql("clickhouse", brokers="k:9092", topic="qa.scores"))
    [queue] = [number for number, one in enumerate(made) if "ENGINE = Kafka" in one]
    made[queue] = "CREATE TABLE judgestream.results_queue (raw String, _offset UInt64) ENGINE = Null"
    script, views, raw = (tmp_path / name for name in ("ask.py", "sql.json", "raw.json"))
    script.write_text(_CLICKHOUSE)
    views.write_text(json.dumps(made))
    raw.write_text(json.dumps(records))
    said = run(python_with("chdb"), script, views, raw, tmp_path / "data")
    rows = [json.loads(line) for line in said.splitlines() if line.strip()]
    found = [(row["result_id"], row["score"]) for row in rows[:2]]
    assert found == [(first.result_id, 4), (second.result_id, 2)]
    assert (rows[0]["app"], rows[1]["corrections"]) == ("it's", ["score_lowered"])
    assert rows[0]["at"] == "2025-03-14 14:00:01.000"
    # Weights 1 and 2: (4 + 2 * 2) / 3.
    assert rows[2]["judged"] in {2, "2"}
    assert rows[2]["mean"] == pytest.approx(8 / 3)
