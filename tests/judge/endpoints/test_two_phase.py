"""A cheap judge on every answer, the strong one on a random part, in virtual time."""

from __future__ import annotations

import json
from fractions import Fraction
from math import isclose
from typing import Any

import pytest

from judge.chat import ChatReply
from judge.endpoints.options import EndpointOptions, Patience
from judge.endpoints.panel import TwoPhaseJudge, best_share, cost_ratio, draw
from judge.endpoints.pool import EndpointPool, JudgingOptions
from judge.endpoints.retrying import RetryingJudge
from judge.errors import EventError
from judge.evaluate.cache import MemoryCache
from judge.evaluate.prices import ModelPrice, PriceTable
from schemas import JudgeTask, Result, Scored, Usage
from tests.judge.endpoints.servers import NEUTRAL, Server
from tests.judge.tasks import TONE, make_task
from tests.judge.virtual_time import virtually

PRICES = {"cheap": 1.0, "strong": 20.0}
SHARE = 0.25


def server(name: str, says: int | Exception) -> Server:
    def reply(_: Server, text: str) -> Any:
        if isinstance(says, Exception) and text != NEUTRAL:
            return says
        return ChatReply(
            json.dumps({"score": 3 if isinstance(says, Exception) else says}),
            name,
            Usage(input_tokens=100),
            1.0,
        )

    return Server(reply, name, name)


async def judged(tasks: list[JudgeTask], cheap: int | Exception = 2, **options: Any) -> list[Result]:
    """Judge tasks in two phases; `options` are those of the strong judge's endpoint, and `cache`."""
    prices = {
        name: ModelPrice(input_usd=usd, output_usd=0.0, cached_usd=None) for name, usd in PRICES.items()
    }
    cache = options.pop("cache", None)
    async with EndpointPool(
        [EndpointOptions(server("cheap", cheap)), EndpointOptions(server("strong", 4), **options)],
        JudgingOptions(patience=Patience(timeout_seconds=30), repair_attempts=0),
        prices=PriceTable(endpoints=prices),
        cache=cache,
    ) as pool:
        first, second = (pool.judge(TONE, endpoints=[name]) for name in PRICES)
        assert isinstance(first, RetryingJudge)
        assert isinstance(second, RetryingJudge)
        if cache is not None:
            await second.judge(tasks[0])
        judge = TwoPhaseJudge(first, second, share=SHARE)
        return [await judge.judge(task) for task in tasks]


def tasks(count: int, **fields: Any) -> list[JudgeTask]:
    return [
        make_task("tone", answer="It is that.").model_copy(update={"result_id": f"{number:032x}", **fields})
        for number in range(count)
    ]


@virtually
async def test_a_quarter_is_judged_by_both_with_its_probability() -> None:
    """Of 400 answers at 1/4, 100 are expected, and 4 standard deviations are 35; both calls are paid."""
    given = tasks(400)
    results = await judged(given)
    strong = [one for one in results if isinstance(one, Scored) and one.score == 4]
    assert abs(len(strong) - 100) < 35
    assert [one.result_id for one in strong] == [
        task.result_id for task in given if draw(task.result_id) < SHARE
    ]
    sampled = given[0].sampling.probability
    fingerprints = {one.evaluator.fingerprint for one in strong}
    assert len(fingerprints) == 1
    for one in results:
        phase = one.first_phase
        assert phase is not None
        assert (phase.score, phase.probability, phase.model) == (2.0, SHARE, "cheap")
        assert {phase.strong} == fingerprints
        by_both = one in strong
        assert (phase.fingerprint == one.evaluator.fingerprint) is not by_both
        part = SHARE if by_both else 1 - SHARE
        assert isclose(one.sampling.probability, sampled * part)
        # 100 tokens at 1 and 20 dollars a million.
        assert one.cost_usd == pytest.approx(0.0021 if by_both else 0.0001)
        assert one.usage.input_tokens == (200 if by_both else 100)
        assert one.judge is not None
        assert one.judge.tries == (2 if by_both else 1)


@virtually
async def test_what_the_cheap_judge_cannot_judge_and_replays_are_the_strong_ones() -> None:
    refused = await judged(tasks(20), EventError("content_refused", "filtered"))
    replayed = await judged(tasks(20, replay_id="replay-1"))
    for one in [*refused, *replayed]:
        assert isinstance(one, Scored)
        assert (one.score, one.first_phase) == (4, None)
        assert one.sampling == tasks(1)[0].sampling


@virtually
async def test_the_cheap_call_is_paid_if_the_strong_judge_needs_none() -> None:
    """The text is too long for it, or its verdict is in the cache: 100 tokens at 1 dollar a million."""
    drawn = [task for task in tasks(20) if draw(task.result_id) < SHARE][:1]
    (long,) = await judged(drawn, context_tokens=1)
    (known,) = await judged(drawn, cache=MemoryCache(10))
    assert [long.status, known.status] == ["unscored", "scored"]
    for one in (long, known):
        assert one.judge is not None
        assert not one.judge.cached
        assert one.cost_usd == pytest.approx(0.0001)
        assert one.usage.input_tokens == 100


@virtually
async def test_doubted_verdicts_are_drawn_three_times_as_often() -> None:
    """A quarter becomes 5/8, which leaves the cheap judge a sample; a tenth would become three tenths."""
    (result,) = await judged(tasks(1))
    assert isinstance(result, Scored)
    doubt = result.model_copy(update={"suspicions": ({"kind": "other", "detail": "?"},)})
    probabilities = []
    for share in (0.25, 0.1):
        judge = TwoPhaseJudge.__new__(TwoPhaseJudge)
        judge.share = share
        probabilities.append(judge.probability(doubt))
    assert probabilities == [Fraction(5, 8), pytest.approx(0.3)]


@pytest.mark.parametrize(
    ("correlation", "ratio", "cost", "share"),
    # sqrt(1 - 0.64) = 0.6, 0.8 sqrt(0.05) = 0.1789: 0.7789² = 0.6067; sqrt(0.05 · 0.36) / 0.8 = 0.1677
    [(0.8, 0.05, 0.6067, 0.1677), (-0.8, 0.05, 0.6067, 0.1677), (0, 0.05, 1, 1), (1, 0.05, 0.05, 0)],
)
def test_the_formula_of_what_is_saved(correlation: float, ratio: float, cost: float, share: float) -> None:
    assert cost_ratio(correlation, ratio) == pytest.approx(cost, abs=1e-4)
    assert best_share(correlation, ratio) == pytest.approx(share, abs=1e-4)
