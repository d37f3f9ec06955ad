from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from judge.chat import ChatReply, ChatRequest
from judge.endpoints.clients import Line, ScriptedChat
from judge.errors import EventError, JudgeConfigurationError, JudgeError, JudgeUnavailableError
from judge.evaluate.evaluator import MAX_DETAIL_CHARS, Evaluator
from judge.evaluate.prices import ModelPrice, PriceTable
from judge.metric import Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import parse_pack
from schemas import RESULT, Correction, Failed, JudgeTask, Scored, Unscored, Usage
from tests.judge.built_tasks import OCCURRED, SAMPLED, task_for

NOW = datetime(2026, 11, 21, 9, 0, 2, tzinfo=UTC)


def pack_metric(text: str = "{answer}", *, name: str = "tone", high: int = 5) -> PackMetric:
    raw = f'[{{role: user, content: "{text}"}}]'.encode()
    return PackMetric(name, parse_pack(raw, dialect="yaml", origin="p"), score_range=(1, high))


class Told(PackMetric):
    """A metric with a scripted outcome."""

    def __init__(self, outcome: Callable[[], Outcome]) -> None:
        pack = parse_pack(b'[{role: user, content: "{answer}"}]', dialect="yaml", origin="p")
        super().__init__("told", pack, score_range=(1, 5))
        self._outcome = outcome

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        del task, reply
        return self._outcome()


def judge_with(metric: PackMetric, *lines: Line, **arguments: Any) -> tuple[Evaluator, ScriptedChat]:
    chat = ScriptedChat(lines, endpoint="primary", model="m-1")
    return Evaluator(metric, chat, clock=lambda: NOW, **arguments), chat


async def test_a_scored_result_carries_judge_usage_cost_and_times() -> None:
    reply = ChatReply(
        text='{"score": 4}',
        model="m-1-2026",
        usage=Usage(input_tokens=100, cached_tokens=50, output_tokens=10),
        seconds=0.75,
    )
    # 50 * 1 + 50 * 0.5 + 10 * 4 = 115 micro-USD.
    prices = PriceTable({"m-1": ModelPrice(1.0, 4.0, 0.5)})
    judge, chat = judge_with(
        pack_metric(), reply, prices=prices, parameters={"temperature": 0}, max_output_tokens=99
    )
    task = task_for(judge.metric)
    result = await judge.judge(task)
    assert isinstance(result, Scored)
    assert (result.score, result.verdict, result.score_exact) == (4, {"score": 4}, None)
    assert (result.result_id, result.event_id, result.metric) == (task.result_id, "e-1", "tone")
    assert (result.source, result.sampling, result.labels) == (task.source, task.sampling, {"app": "guide"})
    assert result.judge is not None
    assert result.judge.model_dump() == {
        "endpoint": "primary",
        "model_asked": "m-1",
        "model_answered": "m-1-2026",
        "fallback": False,
        "cached": False,
        "tries": 1,
    }
    assert result.usage == reply.usage
    assert result.cost_usd == pytest.approx(115e-6)
    times = result.times
    assert (times.occurred_at, times.sampled_at, times.judged_at, times.judge_seconds) == (
        OCCURRED,
        SAMPLED,
        NOW,
        0.75,
    )
    assert result.evaluator == judge.evaluator
    assert chat.requests[0].parameters == {"temperature": 0}
    assert chat.requests[0].max_output_tokens == 99
    assert RESULT.validate_json(result.model_dump_json()) == result


async def test_nothing_to_judge_costs_no_call() -> None:
    judge, chat = judge_with(pack_metric())
    result = await judge.judge(task_for(judge.metric, answer=" "))
    assert isinstance(result, Unscored)
    assert (result.reason, result.judge, result.cost_usd, result.times.judge_seconds) == (
        "missing_input",
        None,
        0.0,
        None,
    )
    assert not chat.requests


async def test_evidence_and_corrections_reach_the_result() -> None:
    correction = Correction(kind="span_missing", detail="x")
    judge, _ = judge_with(Told(lambda: ScoredOutcome({"score": 2}, 2, "2.1", {"a": [1]}, (correction,))), "x")
    scored = await judge.judge(task_for(judge.metric))
    assert isinstance(scored, Scored)
    assert (scored.score_exact, scored.evidence, scored.corrections) == ("2.1", {"a": [1]}, (correction,))
    judge, _ = judge_with(Told(lambda: UnscoredOutcome("no_claims", {"score": 0}, [1], (correction,))), "x")
    unscored = await judge.judge(task_for(judge.metric))
    assert isinstance(unscored, Unscored)
    assert (unscored.verdict, unscored.evidence, unscored.corrections) == ({"score": 0}, [1], (correction,))
    assert unscored.judge is not None


async def test_an_invalid_verdict_is_a_failure_that_was_paid_for() -> None:
    reply = ChatReply(text="x" * 9000, model="m-1", usage=Usage(output_tokens=7), seconds=0.5)
    judge, _ = judge_with(pack_metric(), reply, repair_attempts=0)
    result = await judge.judge(task_for(judge.metric))
    assert isinstance(result, Failed)
    assert result.error_type == "invalid_verdict"
    assert len(result.detail) <= MAX_DETAIL_CHARS
    assert (result.usage.output_tokens, result.times.judge_seconds, result.cost_usd) == (7, 0.5, None)


@pytest.mark.parametrize(
    ("error", "error_type", "detail"),
    [
        (EventError("content_refused", "no " * 2000), "content_refused", "no no"),
        (EventError("reply_cut", "at its limit"), "reply_cut", "at its limit"),
        (KeyError("oops"), "internal_error", "KeyError: 'oops'"),
    ],
)
async def test_an_error_of_one_event_becomes_its_result(
    error: Exception, error_type: str, detail: str
) -> None:
    judge, _ = judge_with(pack_metric(), error)
    result = await judge.judge(task_for(judge.metric))
    assert isinstance(result, Failed)
    assert result.error_type == error_type
    assert result.detail.startswith(detail)
    assert len(result.detail) <= MAX_DETAIL_CHARS
    assert result.judge is not None
    assert result.cost_usd is None


async def test_a_reply_that_is_cut_is_paid_for() -> None:
    """An invalid reply and a cut one are added up: 10 + 20 output tokens and 1 + 2 seconds."""
    prices = PriceTable({"m-1": ModelPrice(1.0, 4.0)})
    first = ChatReply("?", "m-1", Usage(input_tokens=100, output_tokens=10), 1.0)
    cut = ChatReply('{"sc', "m-1", Usage(input_tokens=150, output_tokens=20), 2.0)
    judge, _ = judge_with(pack_metric(), first, EventError("reply_cut", "cut", reply=cut), prices=prices)
    result = await judge.judge(task_for(judge.metric))
    assert isinstance(result, Failed)
    assert result.error_type == "reply_cut"
    assert result.usage == Usage(input_tokens=250, output_tokens=30)
    # 250 * 1 + 30 * 4 = 370 micro-USD.
    assert result.cost_usd == pytest.approx(370e-6)
    assert result.times.judge_seconds == 3.0
    assert result.judge is not None
    assert result.judge.tries == 2


async def test_an_invalid_outcome_is_an_internal_error() -> None:
    judge, _ = judge_with(Told(lambda: ScoredOutcome({"score": float("nan")}, 2)), "x")
    result = await judge.judge(task_for(judge.metric))
    assert isinstance(result, Failed)
    assert result.error_type == "internal_error"


@pytest.mark.parametrize("error", [JudgeUnavailableError("down"), JudgeConfigurationError("no key")])
async def test_outages_and_configuration_errors_are_raised(error: JudgeError) -> None:
    judge, _ = judge_with(pack_metric(), error)
    with pytest.raises(type(error)):
        await judge.judge(task_for(judge.metric))


async def test_cancellation_passes_through() -> None:

    class Hanging(ScriptedChat):
        async def complete(self, request: ChatRequest) -> ChatReply:
            self.requests.append(request)
            return await asyncio.Future()

    chat = Hanging([])
    judge = Evaluator(pack_metric(), chat)
    call = asyncio.create_task(judge.judge(task_for(judge.metric)))
    await asyncio.sleep(0)
    assert chat.requests
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_task_of_another_metric_is_refused() -> None:
    judge, _ = judge_with(pack_metric())
    with pytest.raises(ValueError, match="task of told"):
        await judge.judge(task_for(Told(lambda: UnscoredOutcome("no_claims"))))


def test_the_fingerprint_depends_on_the_evaluator_only() -> None:
    """The fingerprint depends on prompt, name, range, model and parameters, and on nothing else."""

    def fingerprint(metric: PackMetric, *, model: str = "m", **parameters: Any) -> str:
        return Evaluator(metric, ScriptedChat([], model=model), parameters=parameters).evaluator.fingerprint

    assert fingerprint(pack_metric()) == fingerprint(pack_metric())
    prints = [
        fingerprint(pack_metric()),
        fingerprint(pack_metric("A: {answer}")),
        fingerprint(pack_metric(name="other")),
        fingerprint(pack_metric(high=10)),
        fingerprint(pack_metric(), model="n"),
        fingerprint(pack_metric(), temperature=1),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(pack_metric(), a=1, b=2) == fingerprint(pack_metric(), b=2, a=1)
