"""Results are stored once, an unusable file is rebuilt, and the store's sums equal those of its verdicts."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orjson import dumps

from schemas import Scored
from streams.errors import BadFilterError, StoreDamagedError, StoreError, StoreFullError, TooSlowError
from streams.kafka.record import Record
from streams.store import charts, verdicts
from streams.store.agent import MAX_LABEL_VALUES, StoreWriter
from streams.store.charts import HOUR_MS
from streams.store.database import Snapshot, file_bytes, open_writer, read_store, set_aside
from streams.store.query import Filter, Filtered, parse
from streams.store.records import DAY_MS, Decoder, milliseconds, pack, unpacked
from tests.streams.results import START, at, numbered, scored
from tests.streams.store.records import TOPICS, StoreFile, batch_of, count_rows, result_record, task_record


def _drawn(snapshot: Snapshot, wanted: Filter = Filter()) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: B008
    found, by_label = (draw(snapshot, wanted, lambda _: (1, 5)) for draw in (charts.charts, charts.by_label))
    return found, by_label


def test_a_repeated_result_is_stored_once_as_the_first(store: StoreFile) -> None:
    first, again = scored(1, 4), scored(1, 2)
    assert store.write(result_record(first, 0), result_record(again, 7)) == 1
    assert store.write(result_record(again, 2)) == 0
    with store.snapshot() as snapshot:
        rows = verdicts.page(snapshot, Filter(), order="newest", limit=10)["rows"]
    assert [(row["event_id"], row["score"]) for row in rows] == [("e1", 4)]
    assert StoreWriter(store.path).positions() == {("qa.scores", 0): 8}, "a position never decreases"


def test_a_stored_result_of_another_version_is_listed_without_a_reason(store: StoreFile) -> None:
    store.write(scored(1, 4), scored(2, 3))
    with closing(sqlite3.connect(store.path)) as db, db:
        (body,) = db.execute("SELECT body FROM bodies WHERE id = 1").fetchone()
        db.execute("UPDATE bodies SET body = ? WHERE id = 1", (pack(dumps({**unpacked(body), "judge": 1})),))
    with store.snapshot() as snapshot:
        rows = verdicts.page(snapshot, Filter(), order="newest", limit=10)["rows"]
    assert [(row["event_id"], bool(row["reason"])) for row in rows] == [("e2", True), ("e1", False)]


def test_a_batch_that_fails_leaves_nothing(store: StoreFile) -> None:
    writer = StoreWriter(store.path)
    writer.connection.execute("PRAGMA max_page_count = 60")
    noise = "".join(map(chr, Random(1).choices(range(0x4E00, 0x9C00), k=100_000)))
    large = batch_of(scored(5, 3, labels={"app": "a"}), task_record(scored(5, 3), answer=noise))
    with pytest.raises(StoreFullError, match="full"):
        writer.write(large)
    writer.connection.execute("PRAGMA max_page_count = 1000000")
    assert writer.write(batch_of(result_record(scored(1, 4, labels={"app": "a"}), 9))) == 1
    assert writer.positions()["qa.scores", 0] == 10
    assert count_rows(store.path, "texts") == 0
    assert writer.write(large) == 1


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_set_aside(store: StoreFile, content: bytes) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(content)
    with pytest.raises(StoreDamagedError, match="damaged"):
        StoreWriter(store.path)
    assert set_aside(store.path).read_bytes() == content
    store.write()
    assert store.count() == 0


def test_a_file_of_another_version_is_rebuilt_and_another_program_s_is_left_alone(store: StoreFile) -> None:
    store.write()
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("PRAGMA user_version = 999")
    with pytest.raises(StoreDamagedError, match="version 999"):
        StoreWriter(store.path)
    with pytest.raises(StoreError, match="version 999"):
        store.count()
    other = store.path.with_name("other.db")
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE mine (x)")
    with pytest.raises(StoreError, match="another program's"):
        open_writer(other)
    assert count_rows(other, "mine") == 0


def test_a_reader_sees_the_file_that_took_the_place_of_the_old_one(store: StoreFile) -> None:
    store.write(scored(1, 4))
    counts = []
    for _ in range(2):
        with store.snapshot() as snapshot:
            counts.append(Filtered(snapshot, Filter()).count())
        set_aside(store.path)
        store.write()
    assert counts == [1, 0]


def test_too_few_file_descriptors_are_named(store: StoreFile, request: pytest.FixtureRequest) -> None:
    store.write()
    request.getfixturevalue("no_descriptors")
    with pytest.raises(StoreError, match="too many open files: raise its limit"):
        store.count()


def test_texts_are_their_owners_alone(store: StoreFile) -> None:
    store.write()
    store.path.chmod(0o644)
    writer = StoreWriter(store.path)
    writer.write(batch_of(result_record(scored(1, 3))))
    assert {one.stat().st_mode & 0o777 for one in store.path.parent.iterdir()} == {0o600}
    writer.close()


@given(st.text(max_size=40))
def test_any_words_can_be_searched(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, result = StoreFile(Path(folder) / "s"), scored(1, 3)
        words = "the field prompt_version is _private_"
        store.write(result_record(result), task_record(result, answer=words))
        with store.snapshot() as snapshot:
            for query, found in (("prompt_version", 1), ("_private", 1), ("prompt_none", 0), ("_", 1)):
                assert Filtered(snapshot, parse({"q": query}, [], START)).count() == found, query
            with contextlib.suppress(BadFilterError):
                Filtered(snapshot, parse({"q": text}, [], START)).count()


def test_a_slow_query_is_interrupted(store: StoreFile) -> None:
    store.write()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(TooSlowError, match="too long"), read_store(store.path, 0.01) as snapshot:
        snapshot.execute(endless)


def test_records_that_are_not_what_belongs_there_are_left_out(store: StoreFile) -> None:
    values = enumerate((b"{", b"{}", b"\xff", None))
    bad = [Record("qa.scores", offset=number, value=value) for number, value in values]
    records = [*bad, result_record(scored(1, 4), 4)]
    assert batch_of(*records).unreadable == 3
    assert store.write(*records) == 1


def test_hostile_texts_are_kept_as_they_are(store: StoreFile) -> None:
    evil = "'; DROP TABLE verdicts; --\0\ud800\u202e"
    result = scored(1, 1, labels={"app'\0": evil.replace("\ud800", "")})
    task = task_record(result, answer="x")
    value = (task.value or b"").replace(b'"x"', b'"\'; DROP TABLE verdicts; --\\u0000\\u202e"')
    store.write(result_record(result), Record(task.topic, offset=1, value=value))
    with store.snapshot() as snapshot:
        found = verdicts.one(snapshot, result.result_id)
        assert found is not None
        assert found["texts"]["answer"] == "'; DROP TABLE verdicts; --\0\u202e"
        for words in (('"', "OR"), ("NEAR(", "*"), ("DROP",)):
            verdicts.page(snapshot, Filter(words=words), order="worst", limit=5)


def test_topics_are_read_as_the_settings_say() -> None:
    assert Decoder(TOPICS, ("coverage",), "none").topics == ["qa.scores", "qa.alerts", "qa.labels"]
    assert "judge.tasks.coverage" in Decoder(TOPICS, ("coverage",), "full").topics


def test_retention_deletes_verdicts_texts_and_sums(store: StoreFile) -> None:
    """The sums of a partly deleted day are those of its remaining hours."""
    start = milliseconds(at(0)) - milliseconds(at(0)) % DAY_MS
    begun = (start - milliseconds(at(0))) / 1000
    old, kept = (scored(n, score, seconds=begun + 3_600 * n) for n, score in ((2, 1), (6, 5)))
    store.write(result_record(old, 0, corrections=[{"kind": "x", "detail": ""}]), kept)
    store.write(task_record(old, answer="vanished"), task_record(kept, answer="remaining"))
    writer = StoreWriter(store.path)
    assert writer.delete_before(start + 5 * charts.HOUR_MS) == 1
    with store.snapshot() as snapshot:
        assert _drawn(snapshot)[0]["scores"]["relevance"]["scores"] == {5: 1}
        assert verdicts.one(snapshot, old.result_id) is None
    assert (store.count(), store.count(correction="x")) == (1, 0)
    # Texts are deleted by their sampling time, which is START in these tests.
    assert writer.delete_before(milliseconds(at(0)) + 2 * charts.HOUR_MS) == 3  # with two texts
    assert store.count(words=("vanished",)) == 0
    assert count_rows(store.path, "texts") == 0


def test_the_oldest_data_is_deleted_above_the_limit(store: StoreFile) -> None:
    noise, path = Random(1), store.path
    writer = StoreWriter(path)
    for number in range(300):
        answer = "".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(3_000))
        result = scored(number, 3)
        writer.write(batch_of(result, task_record(result, answer=answer)))
    before = file_bytes(path)
    assert writer.keep_below(before // 4) > 0
    assert file_bytes(path) < before // 2
    assert count_rows(path, "texts") < 300
    assert count_rows(path) == 300
    assert writer.keep_below(1) > 0
    assert count_rows(path) == 0


def test_deleted_texts_leave_the_index_and_the_file(store: StoreFile) -> None:
    noise = Random(2)
    writer = StoreWriter(store.path)
    for start in range(0, 2_000, 200):
        results = [scored(number, 3) for number in range(start, start + 200)]
        words = [" ".join(f"word{noise.randrange(10**9)}" for _ in range(60)) for _ in results]
        writer.write(batch_of(*map(lambda one, text: task_record(one, answer=text), results, words)))
    writer.delete_before(0)  # copies the log into the file
    before = store.path.stat().st_size
    assert writer.delete_before(1 << 60) == 2_000
    (left,) = writer.connection.execute("SELECT sum(length(block)) FROM search_data").fetchone()
    assert left < 10_000
    assert store.path.stat().st_size < before // 10
    writer.close()


def test_a_label_of_too_many_values_has_no_sums_and_can_still_be_asked_for(store: StoreFile) -> None:
    users = MAX_LABEL_VALUES + 50
    store.write(*(scored(n, 3, labels={"app": "a", "user": f"u{n}"}) for n in range(users)))
    assert store.count(labels=(("app", "a"),)) == users
    assert store.count(labels=(("user", f"u{users - 1}"),)) == 1
    assert store.count(labels=(("user", "u0"), ("app", "a"))) == 1
    with store.snapshot() as snapshot:
        assert len(charts.choices(snapshot)["labels"]["user"]) == MAX_LABEL_VALUES


def test_a_number_is_kept_as_it_is_and_summed_to_three_digits(store: StoreFile) -> None:
    store.write(numbered(1, 0.23456), numbered(2, 0.2351))
    with store.snapshot() as snapshot:
        rows = verdicts.page(snapshot, Filter(), order="worst", limit=10)["rows"]
        assert {row["score"] for row in rows} == {0.23456, 0.2351}
        assert _drawn(snapshot)[0]["scores"]["relevance"]["scores"] == {0.235: 2}


HOURS = 80
_A, _M = ("app", "a"), ("model", "m")
_FILTERS = [
    Filter(labels=labels, since=since, until=until, lowest=lowest)
    for labels in ((), (_A,), (_A, _M), (("app", "nobody"),))
    for since, until in (
        (None, None),
        (milliseconds(at(7.4 * 3600)), None),
        (milliseconds(at(20 * 3600)), milliseconds(at(61.7 * 3600))),
        (milliseconds(at(30.2 * 3600)), milliseconds(at(30.4 * 3600))),
    )
    for lowest in (None, 3)
]


def _results() -> list[Scored]:
    """Return 400 answers over 80 hours, of two apps and three models; a tenth has no labels."""
    random = Random(1)
    return [
        scored(
            number, random.randint(1, 5), seconds=random.random() * HOURS * 3600,
            labels={"app": random.choice("ab"), "model": random.choice("mno")} if number % 10 else {},
        )
        for number in range(400)
    ]  # fmt: skip


def _fits(result: Scored, wanted: Filter) -> bool:
    moment = milliseconds(result.times.occurred_at)
    return (
        all(result.labels.get(name) == value for name, value in wanted.labels)
        and (wanted.since is None or moment >= wanted.since)
        and (wanted.until is None or moment < wanted.until)
        and (wanted.lowest is None or result.score >= wanted.lowest)
    )


@pytest.mark.parametrize("forgotten_hours", [0, 27])
def test_sums_are_those_of_the_verdicts(tmp_path: Path, forgotten_hours: int) -> None:
    writer = StoreWriter(tmp_path / "s")
    results = _results()
    for start in range(0, len(results), 50):  # unordered in time: batches add to existing cells
        writer.write(batch_of(*results[start : start + 50]))
    cut = milliseconds(at(forgotten_hours * 3600))
    writer.delete_before(cut)
    writer.close()
    results = [one for one in results if milliseconds(one.times.occurred_at) >= cut]
    with read_store(tmp_path / "s") as snapshot:
        for wanted in _FILTERS:
            fitting = [one for one in results if _fits(one, wanted)]
            assert Filtered(snapshot, wanted).count() == len(fitting), wanted
            found, by_label = _drawn(snapshot, wanted)
            numbers = [count for one in found["scores"].values() for count in one["scores"].values()]
            assert sum(numbers) == len(fitting), wanted
            assert sum(point[4] for line in found["lines"] for point in line["points"]) == len(fitting)
            parts: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
            for one in fitting:
                for label in one.labels.items():
                    parts[label].append(one.score)
            means = {tuple(row[1:3]): (row[3], row[6]) for row in by_label["labels"]}
            assert means == {
                label: (pytest.approx(fmean(some), abs=1e-4), len(some)) for label, some in parts.items()
            }


def test_a_mean_is_estimated_by_sampling_stratum(store: StoreFile) -> None:
    """A rule that judges all its answers (97 of score 5 an hour) beside one that judges 1% (score 1).

    The second hour has no answer of the rare one. With n judged answers of typical weight w, and E answers
    expected in an hour, a stratum counts as N = (n + 3) / (1 / w + 3 / E):

        first hour: gold 100 / (1 + 3 / 97) = 97, rest 5 / (1 / 100 + 3 / 100) = 125
                    mean = (97 * 5 + 125 * 1) / 222 = 2.7477
        second:     gold 97, rest 3 / (1 / 100 + 3 / 100) = 75, of mean 1
                    mean = (97 * 5 + 75 * 1) / 172 = 3.2558

    (4.92 and 5 unweighted; 2.68 and 5 weighted without strata.) Of the interval, the rest alone may be all of
    the scale, so it ends at 5. Gold's own one, of 97 equal scores, begins at 4.8425 (Wilson), the rest's at
    its mean. So the second hour's begins at

        3.2558 - sqrt(1.96^2 * ((97 * 1.7442)^2 / 100 + (75 * 2.2558)^2 / 3) + (97 * 0.1575)^2) / 172 = 2.1227

    By label, over both hours, strata count as what they are: (194 * 5 + 200 * 1) / 394 = 2.9695.
    """
    start = milliseconds(at(0))
    answers = [("gold", 5, 1.0, 3600.0 * hour + 30 * number) for hour in (0, 1) for number in range(97)]
    answers += [("rest", 1, 0.01, seconds) for seconds in (1.0, 1800.0)]
    store.write(
        *(
            scored(number, score, seconds=seconds, stratum=rule, probability=rate, labels={"app": "a"})
            for number, (rule, score, rate, seconds) in enumerate(answers)
        )
    )
    with store.snapshot() as snapshot:
        wanted = Filter(since=start - 8 * HOUR_MS)
        found, by_label = _drawn(snapshot, wanted)
    assert found["lines"][0]["points"] == [
        (start, 2.7477, pytest.approx(1.8612, abs=1e-4), 5, 99),
        (start + HOUR_MS, 3.2558, pytest.approx(2.1227, abs=1e-4), 5, 97),
    ]
    assert by_label["labels"][0][:4] == ("relevance", "app", "a", 2.9695)
