"""The offline judge: its scores, and its server."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from openai import AsyncOpenAI, BadRequestError

from judge.chat import OFFLINE_MODEL, ChatMessage
from judge.endpoints.openai_chat import OpenAIChat
from judge.errors import JudgeConfigurationError
from judge.evaluate.evaluator import REPAIR_BEGINNING, Evaluator
from judge.metrics.coverage import COVERAGE_SCHEMA
from judge.metrics.packs.pack import parse_pack
from judge.metrics.prompting import fence, load_prompt
from judge.metrics.registry import build_metric
from judge.offline import server as server_module
from judge.offline.rules import REFUSAL, judge_messages
from judge.offline.server import OfflineJudge
from schemas import Scored
from tests.judge.tasks import task_for

TEXT = fence({"question": "q", "reference": "Zinc is blue.", "answer": "Zinc is blue."})
USER = {"role": "user", "content": TEXT}
PARTS = {"role": "user", "content": [{"type": "text", "text": TEXT}]}
FORMAT = {"type": "json_schema", "json_schema": {"name": COVERAGE_SCHEMA.name, "schema": {}, "strict": True}}


@pytest.fixture
async def server() -> AsyncIterator[OfflineJudge]:
    async with OfflineJudge() as judge:
        yield judge


async def post(server: OfflineJudge, body: Any, path: str = "/chat/completions") -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session:
        sent = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with session.post(server.base_url + path, **sent) as response:
            return response.status, await response.json()


@pytest.mark.parametrize("response_format", [None, {"type": "text"}, {"type": "json_object"}, FORMAT])
@pytest.mark.parametrize("user", [USER, PARTS], ids=["text", "parts"])
async def test_a_completion_has_openais_form(
    server: OfflineJudge, response_format: dict[str, Any] | None, user: dict[str, Any]
) -> None:
    messages = [{"role": "system", "content": "S" * 4}, user]
    body = {"model": "gpt-x", "messages": messages, "response_format": response_format}
    status, reply = await post(server, body)
    assert status == 200
    assert (reply["object"], reply["model"]) == ("chat.completion", OFFLINE_MODEL)
    choice = reply["choices"][0]
    assert (choice["finish_reason"], choice["message"]["refusal"]) == ("stop", None)
    content = choice["message"]["content"]
    assert content.startswith('{"facts"' if response_format is FORMAT else '{"score"')
    prompt, answer = -(-(4 + len(TEXT)) // 4), -(-len(content) // 4)
    counts = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
    assert reply["usage"] == counts | {"prompt_tokens_details": {"cached_tokens": 0}}


async def test_the_openai_sdk_reads_it(server: OfflineJudge) -> None:
    async with AsyncOpenAI(api_key="none", base_url=server.base_url, max_retries=0) as client:
        reply = await client.chat.completions.create(model="x", messages=[{"role": "user", "content": " "}])
        assert reply.choices[0].message.content is None
        assert reply.choices[0].message.refusal == REFUSAL
        assert [model.id async for model in client.models.list()] == [OFFLINE_MODEL]
        with pytest.raises(BadRequestError, match="stream must be false and n 1"):
            await client.chat.completions.create(model="x", n=2, messages=[{"role": "user", "content": "a"}])


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        [],
        {"model": "m"},
        {"messages": ["x"]},
        {"messages": [USER, {"role": "judge", "content": "x"}]},
        {"messages": [{"role": "user", "content": 1}]},
        {"messages": [USER], "stream": True},
        {"messages": [USER], "response_format": "json"},
        {"messages": [USER], "response_format": {"type": "json_schema"}},
    ],
)
async def test_a_request_that_cannot_be_served_is_a_400(server: OfflineJudge, body: Any) -> None:
    status, reply = await post(server, body)
    assert status == 400
    assert reply["error"]["type"] == "invalid_request_error"
    assert reply["error"]["message"].startswith("the body cannot be read (")


async def test_other_paths_are_errors_in_the_same_form(server: OfflineJudge) -> None:
    status, reply = await post(server, {}, "/completions")
    assert status == 404
    assert "/v1/chat/completions" in reply["error"]["message"]
    assert (await post(server, {}, "/models"))[0] == 405


async def test_a_large_event_does_not_keep_others_waiting(
    server: OfflineJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once: list[bool] = []

    def judge(*_: object, **__: object) -> str:
        at_once.append(threading.current_thread() is threading.main_thread())
        return "{}"

    monkeypatch.setattr(server_module, "judge_messages", judge)
    for size in (100, 100_000):
        assert (await post(server, {"messages": [{"role": "user", "content": "x" * size}]}))[0] == 200
    assert at_once == [True, False]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "example.org", "::"])  # noqa: S104 - what must be refused
def test_only_loopback_is_served(host: str) -> None:
    with pytest.raises(JudgeConfigurationError, match="loopback"):
        OfflineJudge(host=host)


async def test_it_starts_stops_and_starts_again() -> None:
    with pytest.raises(JudgeConfigurationError, match="latency_seconds"):
        OfflineJudge(latency_seconds=-1)
    judge = OfflineJudge()
    with pytest.raises(RuntimeError, match="until it is started"):
        _ = judge.base_url
    await judge.stop()
    await judge.start()
    port = int(judge.base_url.split(":")[2].split("/")[0])
    with pytest.raises(OSError, match=str(port)):
        await OfflineJudge(port=port).start()
    await judge.stop()
    async with OfflineJudge(port=port, latency_seconds=0.01) as again:
        assert (await post(again, {"messages": [USER]}))[0] == 200


REFERENCE = "The Eiffel Tower is in Paris. It was built in 1889."
ANSWER = "The Eiffel Tower was built in 1889 in Paris."
COVERAGE = fence({"question": "q", "reference": REFERENCE, "answer": ANSWER})


def said_to(*contents: str) -> str | None:
    turns = [ChatMessage("system", "Judge."), *(ChatMessage("user", content) for content in contents)]
    return judge_messages(turns, schema=None)


@pytest.mark.parametrize("contents", [[], [" "], [COVERAGE[:-200]]], ids=["none", "blank", "cut"])
def test_a_prompt_without_an_answer_is_refused(contents: list[str]) -> None:
    assert said_to(*contents) is None


def test_a_later_turn_does_not_hide_the_event() -> None:
    assert said_to(COVERAGE, f"{REPAIR_BEGINNING} Repair it.") == said_to(COVERAGE)


PAGES = {"Page-7": "The tower is 330 metres tall.", "Page-2": "The Eiffel Tower stands in Paris."}
CITED = "The Eiffel Tower stands in Paris. Evidence: [Page 2]\nIt is 330 metres tall. Evidence: [Page 7]"
SCORES = {
    "coverage": {ANSWER: 5, "It is a dish from Rome.": 0},
    "relevance": {
        CITED: 5,
        CITED.replace("330", "200"): 3,  # 1 of 2
        CITED.replace("[Page 7]", "[Page 7] [Page 8]"): 4,
        "Fish live in water. [Page 2]": 1,
    },
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("by_pack", [False, True])
async def test_the_built_in_metrics_and_their_packs_are_judged(
    server: OfflineJudge, name: str, by_pack: bool
) -> None:
    raw = load_prompt(f"{name}.pack").encode()
    pack = parse_pack(raw, dialect="markdown", origin=name) if by_pack else None
    chat = OpenAIChat(endpoint="offline", model=server.model, base_url=server.base_url)
    judge = Evaluator(build_metric(name, pack=pack), chat)
    for answer, score in SCORES[name].items():
        task = task_for(judge.metric, answer=answer, reference=REFERENCE, context=PAGES)
        result = await judge.judge(task)
        assert isinstance(result, Scored)
        assert (result.score, result.cost_usd) == (score, 0.0)
        assert {one.kind for one in result.corrections} <= {"score_lowered"}
        assert result.judge is not None
        assert result.judge.model_answered == OFFLINE_MODEL
        assert result.usage.input_tokens > 100
    await chat.close()
