from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatReply
from judge.endpoints.clients import Line, ScriptedChat
from judge.errors import EventError, JudgeConfigurationError
from judge.evaluate.cache import AGAIN_SECONDS, FileCache, MemoryCache, VerdictCache, cache_key
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.prices import ModelPrice, PriceTable
from judge.metric import Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.coverage import Coverage
from schemas import RESULT, Correction, Failed, JudgeTask, Scored, Unscored, Usage
from tests.judge.built_tasks import task_for
from tests.judge.evaluate.test_evaluator import Told, pack_metric


@pytest.fixture(params=["memory", "file"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VerdictCache]:
    made: VerdictCache = MemoryCache(3) if request.param == "memory" else FileCache(tmp_path / "verdicts", 3)
    yield made
    made.close()


def test_get_returns_the_last_entry_of_a_key(cache: VerdictCache) -> None:
    assert cache.get("a") is None
    cache.put("a", b"1")
    cache.put("a", b"2")
    assert (cache.get("a"), cache.get("b")) == (b"2", None)


def test_the_least_recently_used_goes_first(cache: VerdictCache) -> None:
    for key in "abc":
        cache.put(key, key.encode())
    assert cache.get("a") == b"a"
    for key in "def":  # three more: a file with a limit of three is trimmed at each third entry
        cache.put(key, key.encode())
    assert [cache.get(key) for key in "abcdef"] == [None, None, None, b"d", b"e", b"f"]
    cache.get("d")
    for key in "ghi":
        cache.put(key, key.encode())
        cache.get("d")
    assert cache.get("d") == b"d"
    assert sum(cache.get(key) is not None for key in "abcdefghi") == 3


def test_a_file_outlives_its_worker(tmp_path: Path) -> None:
    first, second = FileCache(tmp_path / "verdicts", 10), FileCache(tmp_path / "verdicts", 10)
    first.put("a", b"1")
    assert second.get("a") == b"1"
    first.close()
    second.close()
    assert first.get("a") is None
    first.put("b", b"2")
    third = FileCache(tmp_path / "verdicts", 10)
    assert (third.get("a"), third.get("b")) == (b"1", None)
    third.close()


def test_a_file_that_was_written_with_a_larger_bound_is_trimmed(tmp_path: Path) -> None:
    large = FileCache(tmp_path / "verdicts", 100)
    for number in range(20):
        large.put(str(number), b"x")
    large.close()
    FileCache(tmp_path / "verdicts", 5).close()
    left = FileCache(tmp_path / "verdicts", 100)
    assert [number for number in range(20) if left.get(str(number))] == [15, 16, 17, 18, 19]
    left.close()


def corrupt_whole(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def corrupt_version(path: Path) -> None:
    FileCache(path, 3).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


@pytest.mark.parametrize("corrupt", [corrupt_whole, corrupt_version])
def test_an_unreadable_file_is_moved_and_recreated(
    corrupt: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "verdicts"
    corrupt(path)
    content = path.read_bytes()
    with caplog.at_level(logging.WARNING, "judge"):
        cache = FileCache(path, 3)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert (tmp_path / "verdicts.unreadable").read_bytes() == content
    cache.put("a", b"1")
    assert cache.get("a") == b"1"
    cache.close()


def test_a_file_that_breaks_while_in_use_is_recreated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "verdicts"
    cache = FileCache(path, 1000)
    for number in range(500):
        cache.put(str(number), b"x" * 500)
    cache.close()
    content = bytearray(path.read_bytes())
    # The first page holds the schema; the pages after it are damaged.
    content[4096:] = bytes(255 - byte for byte in content[4096:])
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "judge"):
        cache = FileCache(path, 1000)
        assert cache.get("7") is None
        cache.put("7", b"again")
        assert cache.get("7") == b"again"
    assert "renamed to" in caplog.text
    cache.close()


def test_failed_writes_are_logged_once_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On a full disk (a page limit here) entries can be read; three failed writes are counted, with one log
    line.
    """
    failures: list[int] = []
    clock = [0.0]
    cache = FileCache(tmp_path / "verdicts", 10_000, lambda: failures.append(1), monotonic=lambda: clock[0])
    cache.put("first", b"1")
    assert cache._database is not None
    cache._database.execute("PRAGMA max_page_count = 1")  # SQLite raises it to the present number
    with caplog.at_level(logging.WARNING, "judge"):
        for number in range(3):
            cache.put(str(number), b"x" * 100_000)
    assert len(failures) == 3
    assert [record.getMessage().split(",")[0].split()[-1] for record in caplog.records] == ["fails"]
    assert cache.get("first") == b"1"
    clock[0] = AGAIN_SECONDS  # the file is opened again, with the limit gone
    cache.put("later", b"x" * 100_000)
    assert cache.get("later") is not None
    assert len(failures) == 3
    cache.close()


def test_texts_of_verdicts_are_their_owners_alone(tmp_path: Path) -> None:
    """The file and its log can be read by their owner only, also a file of an earlier release."""
    path = tmp_path / "verdicts"
    path.touch(mode=0o644)
    cache = FileCache(path, 10)
    cache.put("a", b"1")
    assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}
    cache.close()


def test_another_workers_write_is_no_failure(tmp_path: Path) -> None:
    failures: list[int] = []
    cache = FileCache(tmp_path / "verdicts", 10, lambda: failures.append(1))
    other = sqlite3.connect(tmp_path / "verdicts", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    cache.put("a", b"1")
    assert cache.get("a") is None
    other.close()
    assert failures == []
    cache.close()


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    with pytest.raises(JudgeConfigurationError, match="another program's database"):
        FileCache(path, 3)
    assert [file.name for file in tmp_path.iterdir()] == ["other.db"]


def test_a_file_that_cannot_be_made_is_a_matter_of_configuration(tmp_path: Path) -> None:
    with pytest.raises(JudgeConfigurationError, match="its folder exists"):
        FileCache(tmp_path / "nowhere" / "verdicts", 3)


# How Judge uses it.

REPLY = ChatReply(text='{"score": 4}', model="m-1-2026", usage=Usage(input_tokens=100, output_tokens=9),
    seconds=0.5)  # fmt: skip


def judge_with(
    cache: VerdictCache, *lines: Line, metric: Any = None, **arguments: Any
) -> tuple[Evaluator, ScriptedChat]:
    chat = ScriptedChat(lines, endpoint="primary", model="m-1")
    prices = PriceTable({"m-1": ModelPrice(1.0, 2.0)})
    return Evaluator(metric or pack_metric(), chat, prices=prices, cache=cache, **arguments), chat


async def test_the_same_texts_are_judged_once(cache: VerdictCache) -> None:
    """A cached result is marked, costs nothing and otherwise belongs to the second event."""
    judge, chat = judge_with(cache, REPLY)
    first = await judge.judge(task_for(judge.metric))
    again = task_for(judge.metric).model_copy(
        update={"event_id": "e-2", "result_id": "f" * 32, "labels": {"app": "other"}}
    )
    second = await judge.judge(again)
    assert isinstance(first, Scored)
    assert isinstance(second, Scored)
    assert len(chat.requests) == 1
    assert (second.verdict, second.score) == (first.verdict, first.score)
    assert (second.event_id, second.result_id, second.labels) == ("e-2", "f" * 32, {"app": "other"})
    assert first.judge is not None
    assert second.judge == first.judge.model_copy(update={"cached": True})
    assert (first.judge.cached, second.usage, second.cost_usd) == (False, Usage(), 0.0)
    assert second.times.judge_seconds is None
    assert second.evaluator == first.evaluator
    assert RESULT.validate_json(second.model_dump_json()) == second


async def test_evidence_and_corrections_are_kept_too(cache: VerdictCache) -> None:
    told = Correction(kind="span_missing", detail="x")
    outcomes: list[Outcome] = [
        ScoredOutcome({"score": 2}, 2, "2.1", {"a": [1]}, (told,)),
        UnscoredOutcome("no_claims", {"score": 0}, [1], (told,)),
    ]
    for number, outcome in enumerate(outcomes):
        judge, _ = judge_with(cache, "x", metric=Told(lambda outcome=outcome: outcome))  # type: ignore[misc] # mypy cannot tell the default's type
        task = task_for(judge.metric, answer=f"answer {number}")
        first, second = await judge.judge(task), await judge.judge(task)
        own = {"judge", "usage", "cost_usd", "times"}
        assert second.model_dump(exclude=own) == first.model_dump(exclude=own)
        assert isinstance(second, Scored | Unscored)
        assert second.corrections == (told,)


async def test_a_failure_is_not_kept(cache: VerdictCache) -> None:
    judge, chat = judge_with(cache, EventError("content_refused", "no"), "bad", REPLY, repair_attempts=0)
    task = task_for(judge.metric)
    kinds = [type(await judge.judge(task)) for _ in range(4)]
    assert kinds == [Failed, Failed, Scored, Scored]
    assert len(chat.requests) == 3
    blank = await judge.judge(task_for(judge.metric, answer=" "))
    assert blank.judge is None


async def test_another_evaluator_has_other_entries(cache: VerdictCache) -> None:
    for metric, arguments in (
        (pack_metric(), {}),
        (pack_metric("A: {answer}"), {}),
        (pack_metric(), {"parameters": {"temperature": 1}}),
    ):
        judge, chat = judge_with(cache, REPLY, metric=metric, **arguments)
        await judge.judge(task_for(judge.metric))
        assert len(chat.requests) == 1


@pytest.mark.parametrize(
    "entry", [b"", b"{", b"[]", b"null", b'{"status": "scored"}', b'{"judge": {}}', b"\xff"]
)
async def test_an_unreadable_entry_is_a_miss(cache: VerdictCache, entry: bytes) -> None:
    judge, chat = judge_with(cache, REPLY)
    task = task_for(judge.metric)
    cache.put(judge._key(task), entry)
    assert isinstance(await judge.judge(task), Scored)
    again = await judge.judge(task)
    assert again.judge is not None
    assert again.judge.cached
    assert len(chat.requests) == 1


TEXTS = st.text(max_size=5)
TASKS = st.builds(
    lambda question, answer, reference, context: task_for(Coverage()).model_copy(
        update={"question": question, "answer": answer, "reference": reference, "context": context}
    ),
    TEXTS,
    TEXTS,
    st.none() | TEXTS,
    st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
)


@given(TASKS, TASKS)
def test_keys_are_equal_exactly_if_the_inputs_are(one: JudgeTask, other: JudgeTask) -> None:

    def key(task: JudgeTask, **changes: Any) -> str:
        return cache_key(task, **({"fingerprint": "f", "context_tokens": None} | changes))

    def texts(task: JudgeTask) -> Any:
        return task.question, task.answer, task.reference, task.context and list(task.context.items())

    assert (key(one) == key(other)) is (texts(one) == texts(other))
    assert len({key(one), key(one, fingerprint="g"), key(one, context_tokens=9000)}) == 3


def test_lone_surrogates_have_a_key() -> None:
    task = task_for(Coverage()).model_copy(update={"answer": "\ud800"})
    assert len(cache_key(task, fingerprint="f", context_tokens=None)) == 64
