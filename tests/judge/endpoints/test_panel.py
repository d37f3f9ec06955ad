"""A panel over scripted endpoints, in virtual time, and the decision of its votes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from fractions import Fraction
from math import isclose
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatReply
from judge.endpoints.options import EndpointOptions, Patience
from judge.endpoints.panel import TwoPhaseJudge, best_share, cost_ratio, decide, draw, vote_of
from judge.endpoints.pool import EndpointPool, JudgingOptions
from judge.endpoints.retrying import RetryingJudge
from judge.errors import EventError, JudgeConfigurationError
from judge.evaluate.cache import MemoryCache
from judge.evaluate.prices import ModelPrice, PriceTable
from schemas import Failed, JudgeTask, Result, Scored, Unscored, Usage
from tests.judge.endpoints.servers import DOWN, NEUTRAL, Server, now, scripted
from tests.judge.tasks import TONE, make_task
from tests.judge.virtual_time import virtually
from tests.streams.results import failed, scored, unscored

REFUSED = EventError("content_refused", "filtered")
USD = {"cheap": 1.0, "strong": 20.0}
AnyResult = TypeVar("AnyResult", Scored, Unscored, Failed)


def voter(endpoint: str, *says: int | Exception | Callable[[], int | Exception]) -> Server:
    script, usage = scripted(says), Usage(input_tokens=100, output_tokens=10)

    def vote(_: Server, text: str) -> Any:
        said = 3 if says == (REFUSED,) and text == NEUTRAL else script()
        said = said() if callable(said) else said
        if isinstance(said, Exception):
            return said
        return ChatReply(json.dumps({"score": said}), f"model-{endpoint}", usage, 1.0)

    return Server(vote, endpoint, f"model-{endpoint}")


def opened(*voters: Server, cache: MemoryCache | None = None, **options: Any) -> EndpointPool:
    """A pool of these voters, the last one with `options`; only the price of `strong` is not 1."""
    names = [one.endpoint for one in voters]
    prices = {one: ModelPrice(input_usd=USD.get(one, 1.0), output_usd=0.0, cached_usd=None) for one in names}
    return EndpointPool(
        [*map(EndpointOptions, voters[:-1]), EndpointOptions(voters[-1], **options)],
        JudgingOptions(patience=Patience(timeout_seconds=30, breaker_failures=3), repair_attempts=0),
        prices=PriceTable(endpoints=prices),
        cache=cache,
    )


async def judged(kind: type[AnyResult], *voters: Server, answer: str = "It is that.") -> AnyResult:
    """The result of a panel of these voters, which must come within an hour."""
    async with opened(*voters) as pool:
        panel = pool.panel(TONE, endpoints=[one.endpoint for one in voters])
        result = await asyncio.wait_for(panel.judge(make_task("tone", answer=answer)), 3_600)
    assert isinstance(result, kind)
    return result


@virtually
async def test_all_members_vote_at_the_same_time_and_everything_is_booked() -> None:
    """Three calls of 100 tokens at 1 USD a million. Of a scale of 4 points 1, 2 and 0 away: 1 - 3/4/3."""
    began = now()
    result = await judged(Scored, voter("a", 5), voter("b", 2), voter("c", 4))
    assert now() - began == pytest.approx(1)
    assert (result.score, result.agreement) == (4, 0.75)
    votes = [(one.endpoint, one.model, one.score) for one in result.votes]
    assert votes == [("a", "model-a", 5), ("b", "model-b", 2), ("c", "model-c", 4)]
    assert result.cost_usd == pytest.approx(0.0003)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (300, 30)
    assert result.judge is not None
    assert (result.judge.endpoint, result.judge.tries) == ("a, b, c", 3)
    assert result.evaluator.model == "model-a, model-b, model-c"
    assert Scored.model_validate_json(result.model_dump_json()) == result


@virtually
async def test_samples_are_votes_of_one_model_that_are_independent() -> None:
    one = voter("a", 3, 5, 4)
    async with opened(one, cache=MemoryCache(9)) as pool:
        panel = pool.panel(TONE, samples=3)
        result = await panel.judge(make_task("tone"))
    assert isinstance(result, Scored)
    assert (result.score, len(result.votes)) == (4, 3)
    assert result.evaluator.model == "3 of model-a"
    assert [asked.parameters["temperature"] for asked in one.requests] == [1.0, 1.0, 1.0]


def from_ten_minutes() -> int | Exception:
    return 5 if now() > 600 else DOWN


@pytest.mark.parametrize(
    ("first", "second", "votes"),
    [
        # A member that fails has no vote, and its reason is told.
        (REFUSED, 2, [("a", None, "content_refused"), ("b", 2, None), ("c", 4, None)]),
        # One that is down or misconfigured is not waited for, if the others are a quorum.
        (DOWN, 2, [("b", 2, None), ("c", 4, None)]),
        (JudgeConfigurationError("401: wrong key"), 2, [("b", 2, None), ("c", 4, None)]),
        (DOWN, from_ten_minutes, [("b", 5, None), ("c", 4, None)]),
    ],
)
@virtually
async def test_a_member_without_a_verdict_leaves_the_decision_to_the_others(
    first: Exception, second: Any, votes: list[tuple[str, int | None, str | None]]
) -> None:
    result = await judged(Scored, voter("a", first), voter("b", second), voter("c", 4))
    assert [(one.endpoint, one.score, one.reason) for one in result.votes] == votes
    assert result.score == min(second if isinstance(second, int) else 5, 4)


@virtually
async def test_without_a_quorum_the_event_fails_with_every_reason() -> None:
    result = await judged(Failed, voter("a", REFUSED), voter("b", REFUSED), voter("c", 4))
    assert result.error_type == "no_quorum"
    assert result.detail.startswith(
        "1 of 3 members gave a verdict, 2 needed: a: content_refused: filtered; b: "
    )
    assert result.usage.input_tokens == 100
    assert Failed.model_validate_json(result.model_dump_json()) == result


@virtually
async def test_a_blank_answer_needs_no_call() -> None:
    voters = [voter("a", 5), voter("b", 2)]
    result = await judged(Unscored, *voters, answer=" ")
    assert (result.reason, result.cost_usd) == ("missing_input", 0)
    assert (result.judge, result.agreement, result.times.judge_seconds) == (None, None, None)
    assert [one.requests for one in voters] == [[], []]


async def test_another_panel_is_another_evaluator() -> None:
    pool = opened(voter("a", 1), voter("b", 2), voter("c", 3))
    members = [(["a", "b"], 1), (["b", "a"], 1), (["a", "c"], 1), (["a", "b"], 2)]
    prints = [pool.panel(TONE, endpoints=names, samples=many).evaluator for names, many in members * 2]
    assert prints[:4] == prints[4:]
    assert len({one.fingerprint for one in prints}) == 4


FAILED, EMPTY = failed(1), unscored(1)


def number(score: int) -> Scored:
    return scored(1, score)


def label(value: str | bool, score: int) -> Scored:
    kind = "boolean" if isinstance(value, bool) else "label"
    return scored(1, score).model_copy(update={"kind": kind, "value": value})


GOOD, FAIR, BAD, OTHER = label("good", 2), label("fair", 1), label("bad", 0), label("other", 1)
YES, NO = label(True, 0), label(False, 1)  # noqa: FBT003 - the value


@pytest.mark.parametrize(
    ("votes", "quorum", "place", "agreement"),
    [
        # Numbers have their median; both others are one step of four away: 1 - (1 + 0 + 1) / 4 / 3.
        ([number(5), number(3), number(4)], 1, 2, 1 - 2 / 12),
        # Of equal votes the first one is published.
        ([number(2), number(2), number(2)], 1, 0, 1.0),
        # An even number: the lower of the middle two; the other is 2 of 4 away, a mean of 0.25.
        ([number(2), number(4)], 1, 0, 1 - 0.25),
        ([number(1), number(5), number(2), number(4)], 1, 2, 1 - (1 + 3 + 0 + 2) / 4 / 4),
        # Labels have their majority; a tie goes to the lower number, then to the first in the panel's order.
        ([GOOD, BAD, GOOD], 1, 0, 2 / 3),
        ([GOOD, BAD], 1, 1, 1 / 2),
        ([GOOD, GOOD, FAIR, FAIR, BAD], 1, 2, 2 / 5),
        ([OTHER, FAIR], 1, 0, 1 / 2),
        ([YES, NO, YES], 1, 0, 2 / 3),
        ([YES, NO], 1, 0, 1 / 2),
        # A failed member has no vote.
        ([number(4), FAILED, number(5)], 2, 0, 1 - 1 / 4 / 2),
        ([number(4), FAILED, number(5)], 3, None, 0),
        ([FAILED, FAILED], 1, None, 0),
        # Most members say that there is nothing to judge; in a tie the number is kept.
        ([EMPTY, number(3), EMPTY], 3, 0, 2 / 3),
        ([EMPTY, number(3)], 2, 1, 1 / 2),
    ],
)
def test_the_decision_is_a_vote_that_was_given(
    votes: list[Result], quorum: int, place: int | None, agreement: float
) -> None:
    decided = decide(votes, quorum=quorum, score_range=(1, 5))
    if decided is None:
        assert place is None
    else:
        assert place is not None
        assert decided[0] is votes[place]
        assert decided[1] == pytest.approx(agreement)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_the_order_of_the_panel_does_not_matter_to_a_number(scores: list[int], random: Any) -> None:
    shuffled = random.sample(scores, len(scores))
    one = decide([number(score) for score in scores], quorum=1, score_range=(1, 5))
    assert one is not None
    assert one == decide([number(score) for score in shuffled], quorum=1, score_range=(1, 5))
    assert isinstance(one[0], Scored)
    assert min(scores) <= one[0].score <= max(scores)
    assert 0 <= one[1] <= 1


def test_a_vote_records_score_value_or_reason() -> None:
    votes = [vote_of(one, endpoint="a", model="m") for one in (number(3), GOOD, EMPTY, FAILED)]
    assert [(one.score, one.value, one.reason) for one in votes] == [
        (3, None, None),
        (2, "good", None),
        (None, None, "no_claims"),
        (None, None, "content_refused"),
    ]


# A cheap judge on every answer, the strong one on a random part

SHARE = 0.25


async def judged_twice(tasks: list[JudgeTask], cheap: int | Exception = 2, **options: Any) -> list[Result]:
    """Judge tasks in two phases; `options` are those of the strong judge's endpoint, and `cache`."""
    async with opened(voter("cheap", cheap), voter("strong", 4), **options) as pool:
        first, second = (pool.judge(TONE, endpoints=[name]) for name in USD)
        assert isinstance(first, RetryingJudge)
        assert isinstance(second, RetryingJudge)
        if "cache" in options:
            await second.judge(tasks[0])
        judge = TwoPhaseJudge(first, second, share=SHARE)
        return [await judge.judge(task) for task in tasks]


def tasks(count: int, **fields: Any) -> list[JudgeTask]:
    task = make_task("tone", answer="It is that.").model_copy(update=fields)
    return [task.model_copy(update={"result_id": f"{number:032x}"}) for number in range(count)]


@virtually
async def test_a_quarter_is_judged_by_both_with_its_probability() -> None:
    """Of 400 answers at 1/4, 100 are expected, and 4 standard deviations are 35; both calls are paid."""
    given = tasks(400)
    results = await judged_twice(given)
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
        assert (phase.score, phase.probability, phase.model) == (2.0, SHARE, "model-cheap")
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
    refused = await judged_twice(tasks(20), REFUSED)
    replayed = await judged_twice(tasks(20, replay_id="replay-1"))
    for one in [*refused, *replayed]:
        assert isinstance(one, Scored)
        assert (one.score, one.first_phase) == (4, None)
        assert one.sampling == tasks(1)[0].sampling


@virtually
async def test_the_cheap_call_is_paid_if_the_strong_judge_needs_none() -> None:
    """The text is too long for it, or its verdict is in the cache: 100 tokens at 1 dollar a million."""
    drawn = [task for task in tasks(20) if draw(task.result_id) < SHARE][:1]
    (long,) = await judged_twice(drawn, context_tokens=1)
    (known,) = await judged_twice(drawn, cache=MemoryCache(10))
    assert [long.status, known.status] == ["unscored", "scored"]
    for one in (long, known):
        assert one.judge is not None
        assert not one.judge.cached
        assert one.cost_usd == pytest.approx(0.0001)
        assert one.usage.input_tokens == 100


@virtually
async def test_doubted_verdicts_are_drawn_three_times_as_often() -> None:
    """A quarter becomes 5/8, which leaves the cheap judge a sample; a tenth would become three tenths."""
    (result,) = await judged_twice(tasks(1))
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
