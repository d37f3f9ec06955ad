from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from judge.chat import OFFLINE_MODEL
from judge.offline.server import OfflineJudge
from streams.doctor.endpoints import EndpointExaminer
from streams.doctor.findings import CheckName, Finding
from streams.settings import MetricSettings, Settings
from tests.loopback import on_loopback

KEY = "sk-right-key-0123456789"
PACK = "## System\nScore the tone.\n\n## User\n{{ item.input }}\n{{ item.output_text }}\n"
ALL: tuple[CheckName, ...] = ("judge", "verdict", "clock")
JUDGE, VERDICT, CLOCK = ALL[:1], ALL[1:2], ALL[2:]


@dataclass
class Server:
    """An OpenAI-compatible server with configurable faults."""

    models: web.Response | None = None
    reply: str = '{"score": 3, "justification": "plain"}'
    known_models: tuple[str, ...] = ("m",)
    date: str | None = None
    refuses_schema: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def list_models(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": "bad key"}}, status=401)
        answer = self.models or web.json_response({"data": [{"id": name} for name in self.known_models]})
        if self.date is not None:
            answer.headers["Date"] = self.date
        return answer

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        if body["model"] not in self.known_models:
            return web.json_response(
                {"error": {"message": "no such model", "code": "model_not_found"}}, status=404
            )
        if self.refuses_schema and "response_format" in body:
            return web.json_response({"error": {"message": "response_format is not supported"}}, status=400)
        message = {"role": "assistant", "content": self.reply}
        return web.json_response(
            {
                "model": body["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
            }
        )


@contextlib.asynccontextmanager
async def served(**bends: Any) -> AsyncIterator[Server]:
    server = Server(**bends)
    app = web.Application()
    app.router.add_get("/v1/models", server.list_models)
    app.router.add_post("/v1/chat/completions", server.complete)
    async with on_loopback(app) as address:
        server.url = f"{address}/v1"
        yield server


@pytest.fixture
def examiner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., EndpointExaminer]:
    """Return a function that makes an examiner for an endpoint."""
    pack = tmp_path / "tone.md"
    pack.write_text(PACK)

    def make(
        base_url: str, *, key: str = KEY, now: Callable[[], float] | None = None, **endpoint: Any
    ) -> EndpointExaminer:
        monkeypatch.setenv("THE_KEY", key)
        one = {"name": "main", "base_url": base_url, "model": "m", "api_key_env": "THE_KEY", **endpoint}
        settings = Settings.model_validate(
            {
                "metrics": {"tone": {"prompt_pack": pack, "score_range": [1, 5]}},
                "judge": {"endpoints": [one], "timeout_seconds": 5, "repair_attempts": 0},
            }
        )
        return EndpointExaminer(settings, {"THE_KEY": key}, 5.0, now or time.time)

    return make


def outcomes(found: list[Finding]) -> dict[str, str]:
    return {one.check: one.outcome for one in found}


async def test_a_judge_that_works(examiner: Callable[..., EndpointExaminer]) -> None:
    """A working judge is listed, judges once with tokens and price, and its clock agrees."""
    async with served() as server:
        one = examiner(server.url, usd_per_million_tokens={"input": 2, "output": 10})
        found = await one.examine(ALL)
        # 1000 tokens at 2 USD and 100 at 10 USD per million: 0.002 + 0.001.
        assert one.cost_usd == pytest.approx(0.003)
        assert (one.usage.input_tokens, one.usage.output_tokens) == (1000, 100)
        assert outcomes(found) == {"judge": "ok", "verdict": "ok", "clock": "ok"}
        assert "serves m" in found[0].detail
        for words in ("3 of 1 to 5", "1000 tokens in, 100 out", "0.003000 USD"):
            assert words in found[1].detail
        assert found[1].subject == "main, tone"
        # A verdict that succeeded is not requested again.
        await one.examine(ALL)
        assert len(server.asked) == 1


async def test_the_form_of_the_reply_that_was_found(examiner: Callable[..., EndpointExaminer]) -> None:
    """The finding names the fallback to plain requests if the server refuses each response format."""
    async with served(refuses_schema=True) as server:
        one = examiner(server.url)
        relevance = one.settings.model_copy(update={"metrics": {"relevance": MetricSettings()}})
        found = await EndpointExaminer(relevance, one.env, 5.0).examine(VERDICT)
    assert found[0].outcome == "failed"
    assert "requested by plain" in found[0].detail


async def test_verdicts_can_be_left_out(examiner: Callable[..., EndpointExaminer]) -> None:
    """Without the check `verdict` no completion is requested."""
    async with served() as server:
        found = await examiner(server.url).examine(JUDGE + CLOCK)
        assert outcomes(found) == {"judge": "ok", "clock": "ok"}
        assert server.asked == []
        assert await examiner(server.url).examine(()) == []


async def test_a_wrong_key(examiner: Callable[..., EndpointExaminer]) -> None:
    """A wrong or missing key is reported without its value, and no verdict is requested."""
    async with served() as server:
        found = await examiner(server.url, key="sk-wrong-key").examine(ALL)
        assert outcomes(found) == {"judge": "failed", "verdict": "not tried", "clock": "ok"}
        assert "rejects the API key" in found[0].detail
        assert not found[0].may_pass
        assert "sk-wrong-key" not in str(found)
        found = await examiner(server.url, api_key_env=None).examine(JUDGE)
        assert "requires an API key, and none is set" in found[0].detail
        assert server.asked == []


async def test_a_missing_or_broken_key(examiner: Callable[..., EndpointExaminer]) -> None:
    found = await examiner("http://127.0.0.1:9/v1", key="").examine(ALL[:2])
    assert outcomes(found) == {"judge": "not tried", "verdict": "not tried"}
    async with served() as server:
        found = await examiner(server.url, key="sk-a\nb-c").examine(ALL[:2])
    assert outcomes(found) == {"judge": "failed", "verdict": "not tried"}
    assert "invalid in an HTTP header" in found[0].detail
    assert "sk-a" not in str(found)


async def test_a_wrong_model(examiner: Callable[..., EndpointExaminer]) -> None:
    """A model missing from the list is a warning, as gateways have aliases; a failed verdict is a failure."""
    async with served(known_models=("model-large", "model-small")) as server:
        found = await examiner(server.url, model="model-larg").examine(ALL[:2])
        assert outcomes(found) == {"judge": "warning", "verdict": "failed"}
        assert "did you mean model-large" in found[0].remedy
        assert "no such model" in found[1].detail
        assert "model's name" in found[1].remedy


@pytest.mark.parametrize(
    ("status", "headers", "outcome", "words", "may_pass"),
    [
        (500, {}, "failed", "answers 500", True),
        (429, {}, "failed", "answers 429", True),
        (302, {"Location": "/x"}, "failed", "redirects", False),
        (404, {}, "ok", "does not list its models", False),
        (403, {}, "ok", "does not list its models (403)", False),
        (200, {}, "ok", "does not list its models (200)", False),
    ],
)
async def test_what_a_list_of_models_may_answer(
    examiner: Callable[..., EndpointExaminer],
    status: int,
    headers: dict[str, str],
    outcome: str,
    words: str,
    may_pass: bool,
) -> None:
    """An outage may pass and a redirect may not; a missing list is no fault."""
    async with served(models=web.Response(status=status, headers=headers, text="<html>")) as server:
        (found,) = await examiner(server.url).examine(JUDGE)
    assert (found.outcome, found.may_pass) == (outcome, may_pass)
    assert words in found.detail


async def test_an_endpoint_that_is_not_there(examiner: Callable[..., EndpointExaminer]) -> None:
    """A refused connection may pass, and no other check is tried."""
    async with served() as server:
        gone = server.url
    found = await examiner(gone).examine(ALL)
    assert outcomes(found) == {"judge": "failed", "verdict": "not tried", "clock": "not tried"}
    assert "Connection refused" in found[0].detail
    assert found[0].may_pass


async def test_a_judge_that_cannot_judge(examiner: Callable[..., EndpointExaminer]) -> None:
    async with served(reply="I would rather not.") as server:
        (found,) = await examiner(server.url).examine(VERDICT)
    assert found.outcome == "failed"
    assert found.detail.startswith("invalid_verdict: ")


@pytest.mark.parametrize(
    ("ahead_seconds", "outcome", "words"),
    [
        (0, "ok", "agrees"),
        (4, "ok", "agrees"),
        (3600, "warning", "3600 s ahead of"),
        (-90, "warning", "90 s behind"),
    ],
)
async def test_the_clock(
    examiner: Callable[..., EndpointExaminer], ahead_seconds: float, outcome: str, words: str
) -> None:
    """The clock is compared with the endpoint's HTTP Date; a difference of up to 5 s is tolerated."""
    # The header has whole seconds, and the examiner adds half a second to it: the clocks agree at 0 s ahead.
    there = 1_800_000_000
    async with served(date=formatdate(there, usegmt=True)) as server:
        one = examiner(server.url, now=lambda: there + 0.5 + ahead_seconds)
        found = await one.examine(CLOCK)
    assert found[0].outcome == outcome
    assert words in found[0].detail


async def test_both_metrics_with_the_offline_judge() -> None:
    """The sample event has the input of each built-in metric."""
    async with OfflineJudge() as offline:
        one = {"name": "offline", "base_url": offline.base_url, "model": OFFLINE_MODEL}
        settings = Settings.model_validate({"judge": {"endpoints": [one]}})
        found = await EndpointExaminer(settings, {}, 5.0).examine(VERDICT)
    assert [(one.subject, one.outcome) for one in found] == [
        ("offline, coverage", "ok"),
        ("offline, relevance", "ok"),
    ]
    assert found[0].detail.startswith("5 of 0 to 5")
    assert found[1].detail.startswith("5 of 1 to 5")


async def test_no_judge_at_all() -> None:
    found = await EndpointExaminer(Settings(), {}, 5.0).examine(ALL)
    assert set(outcomes(found).values()) == {"not tried"}
