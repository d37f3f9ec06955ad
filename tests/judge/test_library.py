from __future__ import annotations

import ast
import asyncio
import re
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import judge as judge_package
from judge import (
    BlockingJudge,
    FileCache,
    JudgingOptions,
    MemoryCache,
    ModelPrice,
    Patience,
    PriceTable,
    TextLimits,
)
from judge.chat import OFFLINE_MODEL, ChatRequest
from judge.errors import JudgeConfigurationError, JudgeUnavailableError
from judge.library import Judge, read_event
from judge.metrics.coverage import Coverage
from judge.rows import fields_of
from schemas import QAEvent, Scored, Unscored
from tests.judge.scripted import ScriptedChat
from tests.places import ROOT, blocks
from tests.toolbox import ended, run

pytestmark = pytest.mark.usefixtures("no_endpoint")

EVENT: dict[str, Any] = {
    "event_id": "1",
    "question": "Where is it?",
    "answer": "It is in Paris.",
    "reference": "It is in Paris.",
}


def _example(page: str) -> str:
    first = re.compile(r"from judge import (?:Blocking)?Judge, Scored\n")
    (found,) = (block for block in blocks(page, "python") if first.match(block))
    return found


async def test_the_example_of_the_manual_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = compile(_example("docs/library.md"), "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    scope: dict[str, Any] = {}
    await eval(code, scope)  # noqa: S307 - the project's own example
    assert isinstance(scope["result"], Scored)
    assert scope["result"].judge is not None
    assert scope["result"].judge.model_answered == OFFLINE_MODEL
    assert capsys.readouterr().out.startswith("(5, ['Fact: 2 of 2")


def test_the_example_of_the_readme_is_a_program() -> None:
    done = ended(sys.executable, "-W", "error", "-c", _example("README.md"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("(5, ['Fact: ")


async def test_each_kind_of_metric_is_taken(tmp_path: Path) -> None:
    pack = tmp_path / "tone.md"
    pack.write_text("---\nscore_range: [1, 5]\n---\n## User\n{{ item.output_text }}\n", "utf-8")
    async with Judge(chat=ScriptedChat(['{"score": 4}'])) as scripted:
        result = await scripted.score(EVENT, pack)
    assert (result.metric, getattr(result, "score", None)) == ("tone", 4)
    async with Judge() as offline:
        assert isinstance(await offline.score(EVENT, "coverage"), Scored)
        assert isinstance(await offline.score(QAEvent.model_validate(EVENT), Coverage()), Scored)
        assert isinstance(await offline.score(EVENT, "relevance"), Unscored)  # it has no pages
        assert isinstance(await offline.score(EVENT, pack), Scored)
        with pytest.raises(JudgeConfigurationError, match="has no prompt_pack"):
            await offline.score(EVENT, "mood")


async def test_redaction_is_an_argument() -> None:
    chat = ScriptedChat(['{"score": 4}'])
    async with Judge(chat=chat, redact=["emails"]) as scripted:
        await scripted.score({**EVENT, "answer": "Write to ada@example.com."}, "coverage")
    assert "[email]" in chat.requests[0].messages[1].content
    assert "@" not in chat.requests[0].messages[1].content
    assert not chat.closed  # it is the caller's


@pytest.mark.parametrize("kind", [Judge, BlockingJudge])
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"base_url": "http://127.0.0.1:9/v1"}, "OPENAI_MODEL"),
        ({"model": "m"}, "without an endpoint"),
        *(
            ({"redact": kinds}, "redact must be a list of secrets, emails, ibans, ")
            for kinds in ("emails", ["email"], ["emails", "names of people"])
        ),
    ],
)
def test_arguments_that_cannot_work_are_refused_and_leave_no_thread(
    kind: type[Any], arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(JudgeConfigurationError, match=told):
        kind(**arguments)
    assert not [thread for thread in threading.enumerate() if thread.name == "judgestream"]


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, judge; assert 'pydantic' not in sys.modules; judge.Judge;"
        "heavy = {'openai', 'faust', 'aiokafka', 'prometheus_client', 'aiohttp'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    run(sys.executable, "-c", code)


async def test_fields_that_are_no_events() -> None:
    async with Judge() as judge:
        with pytest.raises(judge_package.InvalidEventError) as caught:
            await judge.score({"question": 1, "event_id": "x" * 300}, "coverage")
    names = [problem.partition(":")[0] for problem in caught.value.problems]
    assert names == ["event_id", "question", "answer"]
    assert isinstance(caught.value, judge_package.JudgeError)


async def test_an_event_needs_no_id_and_pages_may_be_a_list(tmp_path: Path) -> None:
    """Equal texts get equal ids; list pages are numbered from 1; the path of a pack may be a string."""
    cited = {
        "question": "How long?",
        "answer": "It lasts 12 hours. Evidence: [Page 2]",
        "context": ["340 g.", "12 hours."],
    }
    pack = tmp_path / "tone.yaml"
    pack.write_text('score_range: [1, 5]\nmessages: [{role: user, content: "A: {answer}"}]', encoding="utf-8")
    async with Judge() as judge:
        first, second = [await judge.score(cited, "relevance") for _ in range(2)]
        toned = await judge.score(cited, str(pack))
    assert first.event_id == second.event_id
    assert (first.status, toned.metric) == ("scored", "tone")


async def test_many_are_judged_with_a_bound() -> None:
    taken = 0

    def endless() -> Any:
        nonlocal taken
        while True:
            taken += 1
            yield EVENT

    told: list[int] = []
    async with Judge() as judge:
        async for _ in judge.score_many([EVENT] * 5, "coverage", concurrency=2, progress=told.append):
            assert told[-1] == len(told)
        assert told == [1, 2, 3, 4, 5]
        results = judge.score_many(endless(), "coverage", concurrency=3)
        assert (await anext(results)).status == "scored"
        assert taken == 3
        await results.aclose()
        with pytest.raises(ValueError, match="concurrency must be at least 1, got 0"):
            await anext(judge.score_many([EVENT], "coverage", concurrency=0))


async def test_the_options_of_the_workers_judge_are_arguments(tmp_path: Path) -> None:
    calls = 0

    def reply(_: ChatRequest) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise JudgeUnavailableError("busy", kind="rate_limited", retry_after_seconds=0.001)
        return '{"score": 4}'

    path = tmp_path / "tone.md"
    path.write_text("---\nscore_range: [1, 5]\n---\n{{ item.output_text }}", encoding="utf-8")
    async with Judge(
        chat=ScriptedChat(reply),
        retry=True,
        options=JudgingOptions(patience=Patience(first_wait_seconds=0.001, longest_wait_seconds=0.01)),
        prices=PriceTable({"scripted-1": ModelPrice(input_usd=1.0, output_usd=2.0)}),
        cache=MemoryCache(10),
        limits=TextLimits(answer=20),
    ) as judge:
        first, again = await judge.score(EVENT, path), await judge.score(EVENT | {"event_id": "2"}, path)
        assert (getattr(first, "score", None), calls) == (4, 2)
        assert first.cost_usd is not None
        assert (again.status, again.judge and again.judge.cached, calls) == ("scored", True, 2)
        long = await judge.score(EVENT | {"answer": "x" * 21}, path)
        assert getattr(long, "error_type", None) == "context_too_long"


async def test_a_result_is_shown_in_a_line() -> None:
    async with Judge() as judge:
        assert repr(await judge.score(EVENT, "coverage")) == (
            "Scored(event_id='1', metric='coverage', shown='5')"
        )
        assert repr(await judge.score(EVENT | {"reference": None}, "coverage")) == (
            "Unscored(event_id='1', metric='coverage', reason='missing_input')"
        )


def test_the_example_program_runs() -> None:
    first, second, third = run(sys.executable, "-m", "examples.library", cwd=ROOT).splitlines()
    assert first == second
    assert first.startswith("scored 5 ['Fact: 2 of 2")
    assert third.startswith("scored ")


def test_everything_public_can_be_imported() -> None:
    assert all(getattr(judge_package, name).__name__ == name for name in judge_package.__all__)
    assert sorted(judge_package.__all__) == [*judge_package.__all__]
    with pytest.raises(AttributeError, match="has no attribute 'Jugde'"):
        _ = judge_package.Jugde


@pytest.mark.parametrize(("name", "importing"), [("schemas", "judge"), ("judge", "streams")])
def test_a_package_of_the_same_name_is_refused_with_both_places(
    name: str, importing: str, tmp_path: Path
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    error = ended(sys.executable, "-c", f"import {importing}", cwd=tmp_path).stderr.splitlines()[-1]
    assert error.startswith(
        f"ImportError: judgestream's package `{name}` is in {ROOT}, but Python found {tmp_path}/"
    )
    assert error.endswith("rename that one, or start the program from another folder")


def test_one_and_many() -> None:
    with BlockingJudge() as judge:
        one = judge.score(EVENT, "coverage")
        many = list(judge.score_many([EVENT, {**EVENT, "answer": " "}] * 3, "coverage", concurrency=2))
        for _ in judge.score_many([EVENT] * 100, "coverage", concurrency=4):
            break  # an iteration that is left early stops
        assert judge.score(EVENT, "coverage").status == "scored"
    assert getattr(one, "score", None) == 5
    assert [isinstance(result, Scored) for result in many] == [True, False] * 3
    assert not [thread for thread in threading.enumerate() if thread.name == "judgestream"]
    assert "BlockingJudge(model='offline-rules-1')" in repr(judge)


async def test_it_works_within_a_running_loop_and_with_a_file_of_another_thread(tmp_path: Path) -> None:
    assert asyncio.get_running_loop().is_running()
    with BlockingJudge(cache=FileCache(tmp_path / "verdicts", 10)) as judge:
        results = [judge.score(EVENT, "coverage") for _ in range(2)]
    assert [one.judge and one.judge.cached for one in results] == [False, True]


def test_a_row_of_a_table_becomes_an_event() -> None:
    read = read_event({"event_id": 7, "question": "q", "answer": "a", "occurred_at": datetime(2026, 1, 1)})  # noqa: DTZ001 - the point
    assert (read.event_id, read.occurred_at) == ("7", datetime(2026, 1, 1, tzinfo=UTC))

    class Pages:
        def tolist(self) -> list[str]:
            return ["It is in Paris."]

    odd = {**EVENT, "event_id": 3.0, "labels.tier": 2.0, "labels.app": float("nan"), "context": Pages()}
    fields = fields_of(odd)
    assert (fields["event_id"], fields["labels"]) == ("3", {"tier": "2"})
    assert fields["context"] == ["It is in Paris."]
