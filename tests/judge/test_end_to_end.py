"""The judge over HTTP, from task to result, through the OpenAI client and a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from judge.chat import OFFLINE_MODEL
from judge.endpoints.openai_chat import OpenAIChat
from judge.evaluate.evaluator import Evaluator
from judge.metric import READ_AT_ONCE, build_task, size_of
from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import PromptPack, parse_pack
from judge.metrics.prompting import load_prompt
from judge.metrics.registry import build_metric
from judge.offline.server import OfflineJudge
from schemas import QAEvent, Sampling, Scored, Source, result_id
from tests.judge.tasks import task_for

REFERENCE = "The Eiffel Tower is in Paris. It was completed in 1889."
ANSWER = "The Eiffel Tower, built in 1889, is located in Paris, France."
PAGES = {"Page-7": "The tower is 330 metres tall.", "Page-2": "The Eiffel Tower stands in Paris."}


@pytest.fixture
async def chat() -> AsyncIterator[OpenAIChat]:
    async with OfflineJudge() as server:
        chat = OpenAIChat(endpoint="offline", model=server.model, base_url=server.base_url)
        yield chat
        await chat.close()


def _shipped(name: str) -> PromptPack:
    return parse_pack(load_prompt(f"{name}.pack").encode(), dialect="markdown", origin=name)


@pytest.mark.parametrize("by_pack", [False, True])
async def test_coverage_offline(chat: OpenAIChat, by_pack: bool) -> None:
    judge = Evaluator(build_metric("coverage", pack=_shipped("coverage") if by_pack else None), chat)
    good = await judge.judge(task_for(judge.metric, answer=ANSWER, reference=REFERENCE))
    bad = await judge.judge(task_for(judge.metric, answer="It is a dish from Rome.", reference=REFERENCE))
    assert isinstance(good, Scored)
    assert isinstance(bad, Scored)
    assert (good.score, bad.score) == (5, 0)
    assert good.corrections == bad.corrections == ()
    assert good.judge is not None
    assert good.judge.model_answered == OFFLINE_MODEL
    assert good.usage.input_tokens > 100
    assert good.cost_usd == 0.0


@pytest.mark.parametrize("by_pack", [False, True])
async def test_relevance_offline(chat: OpenAIChat, by_pack: bool) -> None:
    judge = Evaluator(build_metric("relevance", pack=_shipped("relevance") if by_pack else None), chat)

    async def score(answer: str) -> int:
        result = await judge.judge(task_for(judge.metric, answer=answer, context=PAGES))
        assert isinstance(result, Scored)
        assert {one.kind for one in result.corrections} <= {"score_lowered"}
        return result.score

    good = "The Eiffel Tower stands in Paris. Evidence: [Page 2]\nIt is 330 metres tall. Evidence: [Page 7]"
    assert await score(good) == 5
    assert await score(good.replace("330", "200")) == 3  # 1 of 2
    assert await score(good.replace("[Page 7]", "[Page 7] [Page 8]")) == 4
    assert await score("Fish live in water. [Page 2]") == 1


RECORDED = datetime(2026, 11, 21, 8, 0, 0, tzinfo=UTC)
SOURCE = Source(topic="qa.events", partition=3, offset=9)


def metric_using(names: str) -> PackMetric:
    raw = f"[{{role: user, content: '{names}'}}]".encode()
    return PackMetric("tone", parse_pack(raw, dialect="yaml", origin="p"), score_range=(1, 5))


@pytest.mark.parametrize("replay_id", [None, "r-1"])
def test_a_task_holds_only_the_texts_of_its_metric(replay_id: str | None) -> None:
    event = QAEvent(
        event_id="e",
        question="q",
        answer="a",
        reference="r",
        context={"Page-1": "x"},
        labels={"app": "b"},
        trace_id="0" * 32,
    )
    task = build_task(
        event,
        metric_using("{answer} {context}"),
        source=SOURCE,
        sampling=Sampling(probability=1, stratum="default", policy="p"),
        recorded_at=RECORDED,
        sampled_at=RECORDED + timedelta(seconds=5),
        replay_id=replay_id,
    )
    assert (task.question, task.answer, task.reference, task.context) == ("", "a", None, {"Page-1": "x"})
    assert task.occurred_at == RECORDED
    assert task.labels == {"app": "b"}
    assert task.trace_id == "0" * 32
    assert task.result_id == result_id(topic="qa.events", event_id="e", metric="tone", replay_id=replay_id)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("Rain fell.", 10),
        ("\u00e9 a", 22),  # decomposed into two characters: 2 * 10 + 2
        ("\ufdfa", 180),  # NFKC expands it to 18 characters
        ("a\u200b\u200b", 21),  # invisible characters: 1 + 2 * 10
        ("\u200b" * (READ_AT_ONCE + 1), READ_AT_ONCE + 1),  # above READ_AT_ONCE: its length
    ],
)
def test_how_much_there_is_to_read(text: str, size: int) -> None:
    """A non-ASCII character counts ten times its compared length, and at least ten."""
    assert size_of(text) == size
