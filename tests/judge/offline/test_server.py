"""The offline judge: its scores, and its server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from openai import AsyncOpenAI, BadRequestError

from judge.chat import OFFLINE_MODEL, ChatMessage
from judge.endpoints.clients import ScriptedChat
from judge.errors import JudgeConfigurationError
from judge.evaluate.evaluator import REPAIR_BEGINNING, Evaluator
from judge.metrics.coverage import COVERAGE_SCHEMA
from judge.metrics.packs.pack import parse_pack
from judge.metrics.prompting import fence
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
    """Usage is a quarter of the characters, and the reply names the offline model, whatever was asked."""
    messages = [{"role": "system", "content": "S" * 4}, user]
    body = {"model": "gpt-x", "messages": messages, "response_format": response_format}
    status, reply = await post(server, body)
    assert status == 200
    assert (reply["object"], reply["model"]) == ("chat.completion", OFFLINE_MODEL)
    choice = reply["choices"][0]
    assert (choice["finish_reason"], choice["message"]["refusal"]) == ("stop", None)
    content = choice["message"]["content"]
    assert content.startswith('{"facts"' if response_format is FORMAT else '{"score"')
    prompt_tokens = -(-(4 + len(TEXT)) // 4)
    completion_tokens = -(-len(content) // 4)
    assert reply["usage"] == {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


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
    """There is no authentication."""
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


TEXTS = {
    "question": "Where is the Eiffel Tower, and since when?",
    "answer": "The Eiffel Tower is in Paris. [Page 7]\nIt was built in 1889. [Page 7]",
    "reference": REFERENCE,
    "context": {"Page-7": "The Eiffel Tower is in Paris.", "Page-8": "It was built in 1889."},
}
TONE_PACK = """---
score_range: [0, 10]
response_schema: {type: object, properties: {score: {type: integer}, why: {type: string}, tags: {type: array, items: {type: string}},
  kind: {enum: [good, bad]}}, required: [score, why, tags, kind], additionalProperties: false}
examples: [{input: "Why?", output_text: So., reply: {score: 3, why: x, tags: [], kind: bad}}]
---
# System
Rate how friendly the answer is, from 0 to 10.
# User
## Question
{{ item.input }}
## Answer
{{ item.output_text }}
"""  # noqa: E501


LABELS = """---
result: [polite, neutral, curt]
---
# System
{told}
# User
## Question
{{{{ item.input }}}}
## Answer
{{{{ item.output_text }}}}
"""
YES_NO = LABELS.replace("[polite, neutral, curt]", "boolean")


@pytest.mark.parametrize(
    ("text", "score_range", "value", "calls"),
    [
        # Any other prompt gets the middle of its range, or the first choice.
        (TONE_PACK, None, 5, 1),
        (LABELS.format(told='Reply {"score": "polite" | "neutral" | "curt"}.'), None, "polite", 1),
        (YES_NO.format(told='Reply {"score": true or false}.'), None, True, 1),
        # Only the settings and the repair turn state them.
        ("# User\nRate {{ item.output_text }}", (10, 20), 15, 2),
        (LABELS.format(told="How polite is it?"), None, "polite", 2),
        (YES_NO.format(told="Is it kind?"), None, True, 2),
    ],
)
def test_packs_are_read(text: str, score_range: Any, value: object, calls: int) -> None:
    """The range and the choices are read from prompt, schema or repair turn."""
    pack = parse_pack(text.encode(), dialect="markdown", origin="p")
    metric = build_metric("tone", pack=pack, score_range=score_range or pack.score_range)
    chat = ScriptedChat(
        lambda request: judge_messages(request.messages, schema=request.response_schema) or ""
    )
    result = asyncio.run(Evaluator(metric, chat).judge(task_for(metric, **TEXTS)))  # type: ignore[arg-type]  # texts as named
    assert isinstance(result, Scored), result
    assert (result.score if result.value is None else result.value) == value
    assert len(chat.requests) == calls
    assert "rules, not by a language model" in json.dumps(result.verdict)
