from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatReply
from judge.errors import EventError, JudgeConfigurationError
from judge.evaluate.cache import FileCache, MemoryCache, VerdictCache, cache_key
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.prices import ModelPrice, PriceTable
from judge.metric import ScoredOutcome, UnscoredOutcome
from judge.metrics.coverage import Coverage
from judge.metrics.packs.metric import PackMetric
from schemas import RESULT, Correction, Failed, JudgeTask, Scored, Usage
from tests.judge.scripted import Line, ScriptedChat
from tests.judge.tasks import Told, pack_metric, task_for


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


def test_a_file_outlives_its_worker_and_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "verdicts"
    first, second = FileCache(path, 100), FileCache(path, 100)
    for number in range(20):
        first.put(str(number), b"x")
    assert second.get("3") == b"x"
    first.close()
    second.close()
    assert first.get("3") is None
    first.put("late", b"2")
    FileCache(path, 5).close()
    left = FileCache(path, 100)
    assert [number for number in range(20) if left.get(str(number))] == [3, 16, 17, 18, 19]
    assert left.get("late") is None
    left.close()


@pytest.mark.parametrize("damage", ["whole", "version", "pages"])
def test_memory_is_the_cache_in_place_of_an_unreadable_file(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "verdicts"
    cache = FileCache(path, 1000)
    for number in range(500):
        cache.put(str(number), b"x" * 500)
    cache.close()
    content = path.read_bytes()
    if damage == "version":
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 99")
        database.close()
        content = path.read_bytes()
    else:  # the first page holds the schema
        begin = 0 if damage == "whole" else 4096
        content = content[:begin] + bytes(255 - byte for byte in content[begin:])
        path.write_bytes(content)
    cache = FileCache(path, 1000)
    assert cache.get("7") is None
    cache.put("7", b"again")
    assert cache.get("7") == b"again"
    cache.close()
    assert path.read_bytes() == content
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_failures_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On a full disk (a page limit here) entries can be read, and written when there is room again."""
    cache = FileCache(tmp_path / "verdicts", 10_000)
    cache.put("first", b"1")
    cache._database.execute("PRAGMA max_page_count = 1")  # SQLite raises it to the present number
    for number in range(3):
        cache.put(str(number), b"x" * 100_000)
    assert cache.get("first") == b"1"
    cache._database.execute("PRAGMA max_page_count = 1000")
    cache.put("later", b"x" * 100_000)
    assert cache.get("later") is not None
    cache._database.execute("DROP TABLE verdicts")
    assert [cache.get("first"), cache.get("later")] == [None, None]
    cache.close()
    cache.close()
    (line,) = caplog.messages
    assert "verdicts fails (database or disk is full), so repeated verdicts are billed again" in line


def test_texts_of_verdicts_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "verdicts"
    path.touch(mode=0o644)
    cache = FileCache(path, 10)
    cache.put("a", b"1")
    assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}
    cache.close()


def test_another_workers_write_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = FileCache(tmp_path / "verdicts", 10)
    other = sqlite3.connect(tmp_path / "verdicts", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    cache.put("a", b"1")
    assert cache.get("a") is None
    other.close()
    assert caplog.messages == []
    cache.close()


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    with pytest.raises(JudgeConfigurationError, match="another program's database"):
        FileCache(path, 3)
    assert [file.name for file in tmp_path.iterdir()] == ["other.db"]
    with pytest.raises(JudgeConfigurationError, match="its folder exists"):
        FileCache(tmp_path / "nowhere" / "verdicts", 3)


# How the evaluator uses it

REPLY = ChatReply('{"score": 4}', "m-1-2026", Usage(input_tokens=100, output_tokens=9), seconds=0.5)


def judge_with(
    cache: VerdictCache, *lines: Line, metric: Any = None, **arguments: Any
) -> tuple[Evaluator, ScriptedChat]:
    chat = ScriptedChat(lines, endpoint="primary", model="m-1")
    prices = PriceTable({"m-1": ModelPrice(1.0, 2.0)})
    return Evaluator(metric or pack_metric(), chat, prices=prices, cache=cache, **arguments), chat


TOLD = Correction(kind="span_missing", detail="x")


@pytest.mark.parametrize(
    "metric",
    [
        pack_metric(),
        Told(lambda: ScoredOutcome({"score": 2}, 2, "2.1", {"a": [1]}, (TOLD,))),
        Told(lambda: UnscoredOutcome("no_claims", {"score": 0}, [1], (TOLD,))),
    ],
)
async def test_an_outcome_reaches_the_result_whole_and_is_asked_for_once(
    cache: VerdictCache, metric: PackMetric
) -> None:
    judge, chat = judge_with(cache, REPLY, metric=metric)
    first = await judge.judge(task_for(judge.metric))
    outcome = metric.interpret(task_for(metric), REPLY.text)
    for name in ("verdict", "evidence", "corrections", "score_exact", "reason"):
        assert getattr(first, name, None) == getattr(outcome, name, None)
    own = {"event_id": "e-2", "result_id": "f" * 32, "labels": {"app": "other"}}
    second = await judge.judge(task_for(judge.metric).model_copy(update=own))
    assert len(chat.requests) == 1
    assert first.judge is not None
    assert not first.judge.cached
    spent = {"usage": Usage(), "cost_usd": 0.0, "judge": first.judge.model_copy(update={"cached": True})}
    times = first.times.model_copy(update={"judge_seconds": None, "judged_at": second.times.judged_at})
    assert second == first.model_copy(update={**own, **spent, "times": times})
    assert RESULT.validate_json(second.model_dump_json()) == second


async def test_what_is_judged_again_is_asked_again(cache: VerdictCache) -> None:
    """The monitor's tasks neither read the cache nor write it; a replay's are as live ones."""
    judge, chat = judge_with(cache, *[REPLY] * 4)
    ids = (None, "burst-1", "anchor-1", "replay-1", "burst-1")
    tasks = [task_for(judge.metric).model_copy(update={"replay_id": one}) for one in ids]
    asked = [len(chat.requests) for task in tasks if await judge.judge(task)]
    assert asked == [1, 2, 3, 3, 4]


async def test_a_failure_is_not_kept(cache: VerdictCache) -> None:
    judge, chat = judge_with(cache, EventError("content_refused", "no"), "bad", REPLY, repair_attempts=0)
    task = task_for(judge.metric)
    kinds = [type(await judge.judge(task)) for _ in range(4)]
    assert kinds == [Failed, Failed, Scored, Scored]
    assert len(chat.requests) == 3
    assert (await judge.judge(task_for(judge.metric, answer=" "))).judge is None


@pytest.mark.parametrize(
    "entry", [b"", b"{", b"[]", b"null", b'{"status": "scored"}', b'{"judge": {}}', b"\xff"]
)
async def test_an_unreadable_entry_is_a_miss(entry: bytes) -> None:
    cache = MemoryCache(3)
    judge, chat = judge_with(cache, REPLY)
    task = task_for(judge.metric)
    cache.put(judge._key(task), entry)
    assert [type(await judge.judge(task)) for _ in range(2)] == [Scored, Scored]
    assert len(chat.requests) == 1


TEXTS = st.text(max_size=5)
BASE = task_for(Coverage())
PAGES = st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2)
TASKS = st.fixed_dictionaries(
    {"question": TEXTS, "answer": TEXTS, "reference": st.none() | TEXTS, "context": PAGES}
).map(lambda texts: BASE.model_copy(update=texts))


@given(TASKS, TASKS)
def test_keys_are_equal_exactly_if_the_inputs_are(one: JudgeTask, other: JudgeTask) -> None:

    def key(task: JudgeTask, **changes: Any) -> str:
        return cache_key(task, **({"fingerprint": "f", "context_tokens": None} | changes))

    def texts(task: JudgeTask) -> Any:
        return task.question, task.answer, task.reference, task.context and list(task.context.items())

    assert (key(one) == key(other)) is (texts(one) == texts(other))
    assert len({key(one), key(one, fingerprint="g"), key(one, context_tokens=9000)}) == 3
    assert len(key(one.model_copy(update={"answer": "\ud800"}))) == 64
