from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import judge
from judge.chat import OFFLINE_MODEL
from judge.endpoint.scripted import ScriptedChat
from judge.errors import JudgeConfigurationError
from judge.library import Judge
from judge.metrics.coverage.metric import Coverage
from schemas import QAEvent, Scored, Unscored
from tests.places import ROOT

EVENT: dict[str, Any] = {
    "event_id": "1",
    "question": "Where is it?",
    "answer": "It is in Paris.",
    "reference": "It is in Paris.",
}


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


def _example(path: Path) -> str:
    found = re.findall(r"```python\n(from judge import Judge\n.*?)```", path.read_text("utf-8"), re.DOTALL)
    assert len(found) == 1
    return str(found[0])


async def _run(code: str, **names: Any) -> dict[str, Any]:
    """The code of an example, with `async with` at its top level as in an asynchronous program."""
    compiled = compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    scope: dict[str, Any] = dict(names)
    coroutine = eval(compiled, scope)  # noqa: S307 - the project's own example
    assert inspect.iscoroutine(coroutine)
    await coroutine
    return scope


async def test_the_example_of_the_manual_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands, with the offline judge."""
    scope = await _run(_example(ROOT / "docs" / "library.md"))
    assert isinstance(scope["result"], Scored)
    assert scope["result"].judge is not None
    assert scope["result"].judge.model_answered == OFFLINE_MODEL
    assert capsys.readouterr().out.startswith("scored 5 ['Fact: 2 of 2")


@pytest.mark.parametrize("page", ["README.md", "docs/library.md"])
def test_an_example_works_when_it_is_pasted(page: str) -> None:
    """Into Python's asynchronous prompt, as the README says, with the offline judge: no error, and a score of 5."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "asyncio"],
        input=f"{_example(ROOT / page)}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said = done.stdout + done.stderr
    assert "Error" not in said
    assert re.search(r"^(?:[>. ]*)(?:scored )?5 \['Fact: ", said, re.MULTILINE), said


async def test_each_kind_of_metric_is_taken(tmp_path: Path) -> None:
    """A name, a metric, a pack's path; the event as fields or as a model."""
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
        with pytest.raises(JudgeConfigurationError, match="needs a prompt_pack"):
            await offline.score(EVENT, "tone")


async def test_many_at_once() -> None:
    """One judge serves them all, and each result is its own event's."""
    async with Judge() as offline:
        events = [{**EVENT, "event_id": str(number)} for number in range(20)]
        results = await asyncio.gather(*(offline.score(event, "coverage") for event in events))
    assert [result.event_id for result in results] == [event["event_id"] for event in events]


async def test_redaction_is_an_argument() -> None:
    """What is found does not reach the endpoint."""
    chat = ScriptedChat(['{"score": 4}'])
    async with Judge(chat=chat, redact=["emails"]) as scripted:
        await scripted.score({**EVENT, "answer": "Write to ada@example.com."}, "coverage")
    assert "[email]" in chat.requests[0].messages[1].content
    assert "@" not in chat.requests[0].messages[1].content
    assert not chat.closed  # it is the caller's


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"base_url": "http://127.0.0.1:9/v1"}, "OPENAI_MODEL"), ({"model": "m"}, "no endpoint")],
)
def test_an_endpoint_needs_a_model_and_a_model_an_endpoint(arguments: dict[str, str], told: str) -> None:
    """Nobody is asked by guess."""
    with pytest.raises(JudgeConfigurationError, match=told):
        Judge(**arguments)  # type: ignore[arg-type] # strings all


def test_what_the_package_exports() -> None:
    """One name."""
    assert judge.__all__ == ["Judge"]
    assert judge.Judge is Judge
    with pytest.raises(AttributeError, match="has no attribute 'Jugde'"):
        _ = judge.Jugde


def test_importing_the_package_is_light() -> None:
    """Neither an SDK nor a broker's client comes with it, not even where the library is used offline."""
    code = (
        "import sys, judge; assert 'pydantic' not in sys.modules; judge.Judge;"
        "heavy = {'openai', 'faust', 'aiokafka', 'prometheus_client', 'aiohttp'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
