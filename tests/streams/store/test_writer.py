"""Results are stored once, with the read positions, and an unusable file is rebuilt."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import zlib
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import JudgeTask
from streams.errors import (
    BadFilterError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreMissingError,
    TooSlowError,
)
from streams.store import charts, verdicts
from streams.store.database import Reader, file_bytes, open_writer, set_aside
from streams.store.query import Filter, parse
from streams.store.records import DAY_MS, Decoder, milliseconds, pack, text_row, unpacked
from streams.store.writer import MAX_LABEL_VALUES, Writer
from tests.streams.results import START, at, failed, numbered, scored, task_of, unscored
from tests.streams.store.records import TOPICS, Record, batch_of, result_record, task_record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.sqlite3"


def _count(path: Path, table: str = "results") -> int:
    with sqlite3.connect(path) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_a_repeated_result_is_stored_once(path: Path) -> None:
    """A repeated result is stored once, as the first, within a batch or across batches."""
    writer = Writer(path)
    first, again = scored(1, 4), scored(1, 2)
    assert writer.write(batch_of(result_record(first, 0), result_record(again, 1))) == 1
    assert writer.write(batch_of(result_record(again, 2))) == 0
    writer.close()
    with Reader(path).snapshot() as snapshot:
        rows = verdicts.page(snapshot, Filter(), order="newest", limit=10).rows
        assert [(row["event_id"], row["score"]) for row in rows] == [("e1", 4)]
        # The sums count it once too.
        assert verdicts.count(snapshot, Filter()) == 1


def test_positions_are_those_of_the_last_batch(path: Path) -> None:
    """Positions are written with the records, survive a restart and never decrease."""
    writer = Writer(path)
    writer.write(batch_of(result_record(scored(1, 4), 7)))
    writer.write(batch_of(result_record(scored(2, 4), 3)))
    writer.close()
    assert Writer(path).positions() == {("qa.scores", 0): 8}


def test_a_batch_that_fails_leaves_nothing(path: Path) -> None:
    """A failed batch writes no records and no positions, and the next batch is written completely."""
    writer = Writer(path)
    writer.connection.execute("PRAGMA max_page_count = 60")
    labels = {"app": "a"}
    noise = "".join(map(chr, Random(1).choices(range(0x4E00, 0x9C00), k=100_000)))
    large = batch_of(
        result_record(scored(5, 3, labels={"app": "a"})), task_record(scored(5, 3), answer=noise)
    )
    with pytest.raises(StoreFullError, match="full"):
        writer.write(large)
    writer.connection.execute("PRAGMA max_page_count = 1000000")
    assert writer.write(batch_of(result_record(scored(1, 4, labels=labels), 9))) == 1
    assert writer.positions()["qa.scores", 0] == 10
    assert _count(path, "texts") == 0
    assert writer.write(large) == 1


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_set_aside(path: Path, content: bytes) -> None:
    """A damaged file raises StoreDamagedError, is set aside and replaced."""
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreDamagedError, match="damaged"):
        Writer(path)
    assert set_aside(path).read_bytes() == content
    Writer(path).close()
    assert _count(path) == 0


def test_a_file_of_another_version_is_rebuilt_and_another_program_s_is_left_alone(path: Path) -> None:
    """A file of another version counts as damaged; another program's database is not written."""
    Writer(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 999")
    with pytest.raises(StoreDamagedError, match="version 999"):
        Writer(path)
    with pytest.raises(StoreError, match="version 999"), Reader(path).snapshot():
        pass
    other = path.with_name("other.db")
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    with pytest.raises(StoreError, match="another program's"):
        open_writer(other)
    assert _count(other, "mine") == 0


def test_a_missing_store_is_an_error(path: Path) -> None:
    """A reader of a missing store raises an error and creates no file."""
    with pytest.raises(StoreMissingError, match="--agents store"), Reader(path).snapshot():
        pass
    assert not path.exists()


def test_a_reader_sees_the_file_that_took_the_place_of_the_old_one(path: Path) -> None:
    """A reader opens the new file after a rebuild."""
    writer = Writer(path)
    writer.write(batch_of(result_record(scored(1, 4))))
    reader = Reader(path)
    with reader.snapshot() as snapshot:
        assert verdicts.count(snapshot, Filter()) == 1
    writer.close()
    set_aside(path)
    Writer(path).close()
    with reader.snapshot() as snapshot:
        assert verdicts.count(snapshot, Filter()) == 0


def test_too_few_file_descriptors_are_named(path: Path, request: pytest.FixtureRequest) -> None:
    """A process without file descriptors is told so, and not that the file is damaged or missing."""
    Writer(path).close()
    request.getfixturevalue("no_descriptors")
    with pytest.raises(StoreError, match="too many open files: raise its limit"), Reader(path).snapshot():
        pass


def test_texts_are_their_owners_alone(path: Path) -> None:
    """The file and its log can be read by their owner only, also a file of an earlier release."""
    Writer(path).close()
    path.chmod(0o644)
    writer = Writer(path)
    writer.write(batch_of(result_record(scored(1, 3))))
    assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o600}
    writer.close()


@given(st.text(max_size=40))
def test_any_words_can_be_searched(text: str) -> None:
    """Every text finds something or nothing, or is refused by name; none is an error of the store."""
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(Path(folder) / "s")
        result = scored(1, 3)
        words = "the field prompt_version is _private_"
        writer.write(batch_of(result_record(result), task_record(result, answer=words)))
        writer.close()
        with Reader(Path(folder) / "s").snapshot() as snapshot:
            for query, found in (("prompt_version", 1), ("_private", 1), ("prompt_none", 0), ("_", 1)):
                assert verdicts.count(snapshot, parse({"q": query}, [], START)) == found, query
            with contextlib.suppress(BadFilterError):
                verdicts.count(snapshot, parse({"q": text}, [], START))


def test_a_slow_query_is_interrupted(path: Path) -> None:
    """A query that exceeds its time is interrupted."""
    Writer(path).close()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with (
        pytest.raises(TooSlowError, match="too long"),
        Reader(path, longest_seconds=0.01).snapshot() as snapshot,
    ):
        snapshot.rows(endless)


def test_records_that_are_not_what_belongs_there_are_left_out(path: Path) -> None:
    """Unreadable records are skipped, and the others of the batch are written."""
    bad = [Record("qa.scores", 0, number, value) for number, value in enumerate((b"{", b"{}", b"\xff", None))]
    batch = batch_of(*bad, result_record(scored(1, 4), 4))
    assert batch.unreadable == 3
    writer = Writer(path)
    assert writer.write(batch) == 1
    assert writer.positions() == {("qa.scores", 0): 5}


def test_hostile_texts_are_kept_as_they_are(path: Path) -> None:
    """Lone surrogates, NUL and quotes neither stop a batch nor change the SQL."""
    evil = "'; DROP TABLE verdicts; --\0\ud800\u202e"
    result = scored(1, 1, labels={"app'\0": evil.replace("\ud800", "")})
    task = task_record(result, answer="x")
    value = (task.value or b"").replace(b'"x"', b'"\'; DROP TABLE verdicts; --\\u0000\\u202e"')
    writer = Writer(path)
    writer.write(batch_of(result_record(result), Record(task.topic, 0, 1, value)))
    writer.close()
    with Reader(path).snapshot() as snapshot:
        found = verdicts.one(snapshot, result.result_id)
        assert found is not None
        assert found["texts"]["answer"] == "'; DROP TABLE verdicts; --\0\u202e"
        for words in (('"', "OR"), ("NEAR(", "*"), ("DROP",)):
            verdicts.page(snapshot, Filter(words=words), order="worst", limit=5)


def test_texts_are_kept_as_the_settings_say(path: Path) -> None:
    """Texts are stored whole or as the first 300 characters; with `none` task topics are not read."""
    result = scored(1, 3)
    long = task_record(result, answer="a" * 1_000, context={"Page-1": "p" * 1_000})
    writer = Writer(path)
    writer.write(batch_of(result_record(result), long, texts="excerpt"))
    writer.close()
    with Reader(path).snapshot() as snapshot:
        found = verdicts.one(snapshot, result.result_id)
        assert found is not None
        assert found["texts"]["answer"] == "a" * 300
        assert found["texts"]["context"] == {"Page-1": "p" * 300}
        assert found["texts"]["excerpt"] is True
    assert Decoder(TOPICS, ("coverage",), "none").topics == ["qa.scores", "qa.alerts", "qa.labels"]
    assert "judge.tasks.coverage" in Decoder(TOPICS, ("coverage",), "full").topics


def test_retention_deletes_verdicts_texts_and_sums(path: Path) -> None:
    """Retention deletes verdicts, texts and sums up to the hour.

    The sums of a partly deleted day are those of its remaining hours.
    """
    writer = Writer(path)
    start = milliseconds(at(0)) - milliseconds(at(0)) % DAY_MS
    begun = (start - milliseconds(at(0))) / 1000
    old = scored(1, 1, seconds=begun + 3_600 * 2)
    kept = scored(2, 5, seconds=begun + 3_600 * 6)
    writer.write(
        batch_of(result_record(old, 0, corrections=[{"kind": "x", "detail": ""}]), result_record(kept, 1))
    )
    writer.write(batch_of(task_record(old, answer="vanished"), task_record(kept, answer="remaining")))
    assert writer.delete_before(start + 5 * charts.HOUR_MS) == 1
    with Reader(path).snapshot() as snapshot:
        assert charts.charts(snapshot, Filter(), DAY_MS).scores == {"relevance": {(5, 1.0): 1}}
        assert verdicts.count(snapshot, Filter()) == 1
        assert verdicts.one(snapshot, old.result_id) is None
        assert verdicts.count(snapshot, Filter(correction="x")) == 0
    # Texts are deleted by their sampling time, which is START in these tests.
    assert writer.delete_before(milliseconds(at(0)) + 2 * charts.HOUR_MS) == 3  # with two texts
    with Reader(path).snapshot() as snapshot:
        assert verdicts.count(snapshot, Filter(words=("vanished",))) == 0
    assert _count(path, "texts") == 0


def test_the_oldest_data_is_deleted_above_the_limit(path: Path) -> None:
    """Above the size limit texts are deleted first, then verdicts, and the file shrinks."""
    noise = Random(1)
    writer = Writer(path)
    for number in range(300):
        answer = "".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(3_000))
        result = scored(number, 3)
        writer.write(
            batch_of(result_record(result, number), task_record(result, answer=answer, offset=number))
        )
    before = file_bytes(path)
    assert writer.keep_below(before // 4) > 0
    assert file_bytes(path) < before // 2
    assert _count(path, "texts") < 300
    assert _count(path) == 300
    assert writer.keep_below(1) > 0
    assert _count(path) == 0


def test_deleted_texts_leave_the_index_and_the_file(path: Path) -> None:
    """After the deletion of all texts the index holds no words and the file itself is small."""
    noise = Random(2)
    writer = Writer(path)
    for start in range(0, 2_000, 200):
        results = [scored(number, 3) for number in range(start, start + 200)]
        words = [" ".join(f"word{noise.randrange(10**9)}" for _ in range(60)) for _ in results]
        writer.write(
            batch_of(*(task_record(one, answer=text) for one, text in zip(results, words, strict=True)))
        )
    writer.delete_before(0)  # copies the log into the file
    before = path.stat().st_size
    assert writer.delete_before(1 << 60) == 2_000
    (left,) = writer.connection.execute("SELECT sum(length(block)) FROM search_data").fetchone()
    assert left < 10_000
    assert path.stat().st_size < before // 10
    writer.close()


@given(st.binary(max_size=2_000))
def test_packing_loses_nothing(data: bytes) -> None:
    """Unpacking gives the packed bytes."""
    assert zlib.decompress(pack(data)) == data


def test_a_label_of_too_many_values_has_no_sums_and_can_still_be_asked_for(path: Path) -> None:
    """A label with too many values has no sums and can be filtered by."""
    writer = Writer(path)
    users = MAX_LABEL_VALUES + 50
    results = [scored(number, 3, labels={"app": "a", "user": f"u{number}"}) for number in range(users)]
    writer.write(batch_of(*(result_record(one, number) for number, one in enumerate(results))))
    with Reader(path).snapshot() as snapshot:
        assert verdicts.count(snapshot, Filter(labels=(("app", "a"),))) == users
        assert verdicts.count(snapshot, Filter(labels=(("user", f"u{users - 1}"),))) == 1
        assert verdicts.count(snapshot, Filter(labels=(("user", "u0"), ("app", "a")))) == 1
        assert len(charts.choices(snapshot)["labels"]["user"]) == MAX_LABEL_VALUES


def test_a_number_is_kept_as_it_is_and_summed_to_three_digits(path: Path) -> None:
    """A number is stored exactly and summed rounded to three digits: 0.23456 counts as 0.235."""
    writer = Writer(path)
    writer.write(batch_of(result_record(numbered(1, 0.23456), 0), result_record(numbered(2, 0.2351), 1)))
    writer.close()
    with Reader(path).snapshot() as snapshot:
        rows = verdicts.page(snapshot, Filter(), order="worst", limit=10).rows
        assert {row["score"] for row in rows} == {0.23456, 0.2351}
        assert charts.charts(snapshot, Filter(), DAY_MS).scores["relevance"] == {(0.235, 1.0): 2}


def test_every_status_has_its_place(path: Path) -> None:
    """Unscored and failed results are counted and excluded from means."""
    writer = Writer(path)
    records = [result_record(scored(1, 4), 0), result_record(unscored(2), 1), result_record(failed(3), 2)]
    writer.write(batch_of(*records))
    with Reader(path).snapshot() as snapshot:
        found = charts.charts(snapshot, Filter(), DAY_MS)
        assert found.statuses["relevance"] == {"scored": 1, "unscored": 1, "failed": 1}
        assert found.scores["relevance"] == {(4, 1.0): 1}


def test_what_a_pack_has_shown_is_kept_beside_the_texts() -> None:
    """Messages, tool calls, other answer and named fields are stored, truncated as the texts."""
    task = task_of(
        scored(1, 3),
        messages=[{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}],
        tool_calls=[{"name": "search", "arguments": "{}", "result": "none"}],
        other_answer="x" * 5_000,
        fields={"policy": "Be brief."},
    )
    further = unpacked(text_row(JudgeTask.model_validate(task.model_dump()), "excerpt")[2])["further"]
    assert further["messages"] == "user  Hello\nassistant  Hi"
    assert further["tool calls"] == "search  {}  none"
    assert further["policy"] == "Be brief."
    assert 0 < len(further["other answer"]) < 5_000
