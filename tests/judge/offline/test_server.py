from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from openai import AsyncOpenAI, BadRequestError

from judge.chat import OFFLINE_MODEL
from judge.errors import JudgeConfigurationError
from judge.metrics.coverage import COVERAGE_SCHEMA
from judge.metrics.prompting import fence
from judge.offline.rules import REFUSAL
from judge.offline.server import OfflineJudge

USER = {
    "role": "user",
    "content": fence({"question": "q", "reference": "Zinc is blue.", "answer": "Zinc is blue."}),
}
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
async def test_a_completion_has_openais_form(
    server: OfflineJudge, response_format: dict[str, Any] | None
) -> None:
    """Usage is a quarter of the characters, and the reply names the offline model whatever model was
    requested.
    """
    body: dict[str, Any] = {"model": "gpt-x", "messages": [{"role": "system", "content": "S" * 4}, USER]}
    if response_format is not None:
        body["response_format"] = response_format
    status, reply = await post(server, body)
    assert status == 200
    assert (reply["object"], reply["model"]) == ("chat.completion", OFFLINE_MODEL)
    choice = reply["choices"][0]
    assert (choice["finish_reason"], choice["message"]["refusal"]) == ("stop", None)
    content = choice["message"]["content"]
    assert content.startswith('{"facts"' if response_format is FORMAT else '{"score"')
    prompt_tokens = -(-(4 + len(USER["content"])) // 4)
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
        with pytest.raises(BadRequestError, match="n: input should be 1"):
            await client.chat.completions.create(model="x", n=2, messages=[{"role": "user", "content": "a"}])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        ([], None),
        ({"messages": [USER]}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": ["x"]}, "messages[0]"),
        ({"model": "m", "messages": [USER, {"role": "judge", "content": "x"}]}, "messages[1].role"),
        ({"model": "m", "messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"model": "m", "messages": [USER], "stream": True}, "stream"),
        ({"model": "m", "messages": [USER], "n": 3}, "n"),
        ({"model": "m", "messages": [USER], "response_format": "json"}, "response_format"),
        ({"model": "m", "messages": [USER], "response_format": {"type": []}}, "response_format.type"),
        ({"model": "m", "messages": [USER], "response_format": {"type": "json_schema"}}, "response_format"),
    ],
)
async def test_a_request_that_cannot_be_served_is_a_400(
    server: OfflineJudge, body: Any, param: str | None
) -> None:
    """An invalid request gets OpenAI's error body with the name of the field."""
    status, reply = await post(server, body)
    assert status == 400
    assert reply["error"]["type"] == "invalid_request_error"
    assert reply["error"]["param"] == param
    assert reply["error"]["message"]


async def test_other_paths_are_errors_in_the_same_form(server: OfflineJudge) -> None:
    """An unknown path is a 404 that names the served one; a wrong method is a 405."""
    status, reply = await post(server, {}, "/completions")
    assert status == 404
    assert "/v1/chat/completions" in reply["error"]["message"]
    status, _ = await post(server, {}, "/models")
    assert status == 405


async def test_content_in_parts_is_read(server: OfflineJudge) -> None:
    parts = [{"type": "text", "text": USER["content"]}]
    status, reply = await post(server, {"model": "m", "messages": [{"role": "user", "content": parts}]})
    assert status == 200
    assert reply["choices"][0]["message"]["content"]


async def test_a_large_event_does_not_keep_others_waiting(server: OfflineJudge) -> None:
    """A large event is scored in the background; a later small one is answered first."""
    text = " ".join(f"Widget {number} weighs {number} grams." for number in range(8000))
    large = {"role": "user", "content": fence({"question": "q", "reference": text, "answer": text})}
    first = asyncio.create_task(post(server, {"model": "m", "messages": [large]}))
    await asyncio.sleep(0)
    done: list[str] = []
    first.add_done_callback(lambda _: done.append("large"))
    await post(server, {"model": "m", "messages": [USER]})
    done.append("small")
    assert (await first)[0] == 200
    assert done == ["small", "large"]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "example.org", "::"])  # noqa: S104 - what must be refused
def test_only_loopback_is_served(host: str) -> None:
    """A host other than loopback is refused, because the server has no authentication."""
    with pytest.raises(JudgeConfigurationError, match="loopback"):
        OfflineJudge(host=host)


def test_a_negative_latency_is_refused() -> None:
    """The error names the field."""
    with pytest.raises(JudgeConfigurationError, match="latency_seconds"):
        OfflineJudge(latency_seconds=-1)


async def test_it_starts_stops_and_starts_again() -> None:
    """A server can restart on its port; a port in use is an OSError, and before the start there is no
    address.
    """
    judge = OfflineJudge()
    with pytest.raises(RuntimeError, match="until it is started"):
        _ = judge.base_url
    await judge.stop()
    await judge.start()
    port = int(judge.base_url.split(":")[2].split("/")[0])
    with pytest.raises(OSError, match=str(port)):
        await OfflineJudge(port=port).start()
    await judge.stop()
    again = OfflineJudge(port=port, latency_seconds=0.01)
    await again.start()
    assert (await post(again, {"model": "m", "messages": [USER]}))[0] == 200
    assert again.model == OFFLINE_MODEL
    await again.stop()
