"""A panel over scripted endpoints, on a clock that jumps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from judge.chat import ChatReply, ChatRequest
from judge.errors import EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.pool.pool import Endpoint, Patience
from judge.pool.stack import JudgingOptions, JudgingStack
from judge.verdict.cache import MemoryCache
from judge.verdict.pricing import ModelPrice, PriceTable
from schemas import Failed, Scored, Unscored, Usage
from tests.judge.pool.test_reliable import METRIC, now
from tests.judge.tasks import make_task
from tests.judge.virtual_time import run_virtually

REFUSED = EventError("content_refused", "filtered")
DOWN = JudgeUnavailableError("connection refused")
PRICE = ModelPrice(input_usd=1.0, output_usd=0.0, cached_usd=None)


class Voter:
    """An endpoint that gives a fixed reply after a second."""

    def __init__(self, endpoint: str, *says: int | Exception | Callable[[], int | Exception]) -> None:
        self.endpoint = endpoint
        self.model = f"model-{endpoint}"
        self._says = list(says)
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        await asyncio.sleep(1)
        said = self._says.pop(0) if len(self._says) > 1 else self._says[0]
        said = said() if callable(said) else said
        if isinstance(said, Exception):
            raise said
        usage = Usage(input_tokens=100, output_tokens=10)
        return ChatReply(json.dumps({"score": said}), self.model, usage, 1.0)

    async def close(self) -> None:
        """Nothing to close."""


def stack(*voters: Voter, cache: MemoryCache | None = None) -> JudgingStack:
    return JudgingStack(
        [Endpoint(one) for one in voters],
        JudgingOptions(patience=Patience(timeout_seconds=30, breaker_failures=3), repair_attempts=0),
        prices=PriceTable(endpoints={one.endpoint: PRICE for one in voters}),
        cache=cache,
    )


def test_all_members_vote_at_the_same_time_and_everything_is_booked() -> None:
    """The median of 5, 2 and 4 is 4, in the time of one call.

    Three calls of 100 tokens at 1 USD a million cost 0.0003 USD. Of the scale of 4 points the votes are 1, 2
    and 0 away: the agreement is 1 - 3/4/3 = 0.75.
    """

    async def judged() -> None:
        voters = [Voter("a", 5), Voter("b", 2), Voter("c", 4)]
        async with stack(*voters) as judging:
            panel = judging.panel(METRIC, endpoints=["a", "b", "c"])
            began = now()
            result = await panel.judge(make_task("tone"))
            assert now() - began == pytest.approx(1)
        assert isinstance(result, Scored)
        assert (result.score, result.agreement) == (4, 0.75)
        assert [(one.endpoint, one.model, one.score) for one in result.votes] == [
            ("a", "model-a", 5),
            ("b", "model-b", 2),
            ("c", "model-c", 4),
        ]
        assert result.cost_usd == pytest.approx(0.0003)
        assert (result.usage.input_tokens, result.usage.output_tokens) == (300, 30)
        assert result.judge is not None
        assert (result.judge.endpoint, result.judge.tries) == ("a, b, c", 3)
        assert result.evaluator.model == "model-a, model-b, model-c"
        assert Scored.model_validate_json(result.model_dump_json()) == result

    run_virtually(judged())


def test_samples_are_votes_of_one_model_that_are_independent() -> None:
    """Three calls at a temperature above 0, and none of them is answered from the cache."""

    async def judged() -> None:
        voter = Voter("a", 3, 5, 4)
        async with stack(voter, cache=MemoryCache(9)) as judging:
            panel = judging.panel(METRIC, samples=3)
            result = await panel.judge(make_task("tone"))
        assert isinstance(result, Scored)
        assert (result.score, len(result.votes)) == (4, 3)
        assert result.evaluator.model == "3 of model-a"
        assert [one.parameters["temperature"] for one in voter.requests] == [1.0, 1.0, 1.0]

    run_virtually(judged())


def test_a_member_that_fails_has_no_vote() -> None:
    """Two of three decide, and the result names why the third said nothing."""

    async def judged() -> None:
        async with stack(Voter("a", REFUSED), Voter("b", 2), Voter("c", 4)) as judging:
            result = await judging.panel(METRIC, endpoints=["a", "b", "c"]).judge(make_task("tone"))
        assert isinstance(result, Scored)
        assert [(one.status, one.reason) for one in result.votes] == [
            ("failed", "content_refused"),
            ("scored", None),
            ("scored", None),
        ]
        assert result.score == 2

    run_virtually(judged())


def test_without_a_quorum_the_event_fails_and_every_reason_is_told() -> None:
    """Nobody's number stands for the panel's; what the votes cost is booked."""

    async def judged() -> None:
        async with stack(Voter("a", REFUSED), Voter("b", REFUSED), Voter("c", 4)) as judging:
            result = await judging.panel(METRIC, endpoints=["a", "b", "c"]).judge(make_task("tone"))
        assert isinstance(result, Failed)
        assert result.error_type == "no_quorum"
        assert result.detail.startswith(
            "1 of 3 members gave a verdict, 2 needed: a: content_refused: filtered; b: "
        )
        assert result.usage.input_tokens == 100
        assert Failed.model_validate_json(result.model_dump_json()) == result

    run_virtually(judged())


def test_a_member_that_is_down_holds_nobody_up_where_the_others_make_a_quorum() -> None:
    """Once its breaker is open, a verdict comes in the time of one call, with two votes."""

    async def judged() -> None:
        async with stack(Voter("a", DOWN), Voter("b", 2), Voter("c", 4)) as judging:
            panel = judging.panel(METRIC, endpoints=["a", "b", "c"])
            first = await asyncio.wait_for(panel.judge(make_task("tone")), 600)
            began = now()
            second = await panel.judge(make_task("tone"))
            assert now() - began == pytest.approx(1)
        for result in (first, second):
            assert isinstance(result, Scored)
            assert result.score == 2
        assert [one.endpoint for one in second.votes] == ["b", "c"]

    run_virtually(judged())


def test_without_a_quorum_the_panel_waits_for_one() -> None:
    """Two of three are down: an outage becomes no failure. One comes back after ten minutes."""

    async def judged() -> None:
        def from_ten_minutes() -> int | Exception:
            return 5 if now() > 600 else DOWN

        voters = [Voter("a", DOWN), Voter("b", from_ten_minutes), Voter("c", 4)]
        async with stack(*voters) as judging:
            panel = judging.panel(METRIC, endpoints=["a", "b", "c"])
            result = await asyncio.wait_for(panel.judge(make_task("tone")), 3600)
        assert isinstance(result, Scored)
        assert [(one.endpoint, one.score) for one in result.votes] == [("b", 5), ("c", 4)]
        assert now() > 600

    run_virtually(judged())


def test_nothing_is_asked_where_there_is_nothing_to_judge() -> None:
    """All members say so without a call: no cost, no agreement."""

    async def judged() -> None:
        voters = [Voter("a", 5), Voter("b", 2)]
        async with stack(*voters) as judging:
            result = await judging.panel(METRIC, endpoints=["a", "b"]).judge(make_task("tone", answer=" "))
        assert isinstance(result, Unscored)
        assert (result.reason, result.judge, result.cost_usd, result.agreement) == (
            "missing_input",
            None,
            0,
            None,
        )
        assert [one.requests for one in voters] == [[], []]

    run_virtually(judged())


def test_a_member_with_a_wrong_key_is_as_one_that_is_down() -> None:
    """The pool says so where it says what is down; the others decide."""

    async def judged() -> None:
        wrong = JudgeConfigurationError("401: wrong key")
        async with stack(Voter("a", wrong), Voter("b", 2), Voter("c", 4)) as judging:
            panel = judging.panel(METRIC, endpoints=["a", "b", "c"])
            result = await asyncio.wait_for(panel.judge(make_task("tone")), 3600)
        assert isinstance(result, Scored)
        assert [one.endpoint for one in result.votes] == ["b", "c"]

    run_virtually(judged())


def test_another_panel_is_another_evaluator() -> None:
    """Another member, order or quorum, or more samples."""
    judging = stack(Voter("a", 1), Voter("b", 2), Voter("c", 3))
    panels = [
        judging.panel(METRIC, endpoints=["a", "b"]),
        judging.panel(METRIC, endpoints=["b", "a"]),
        judging.panel(METRIC, endpoints=["a", "c"]),
        judging.panel(METRIC, endpoints=["a", "b"], quorum=1),
        judging.panel(METRIC, endpoints=["a", "b"], samples=2),
    ]
    assert len({one.evaluator.fingerprint for one in panels}) == len(panels)
    again = judging.panel(METRIC, endpoints=["a", "b"])
    assert again.evaluator == panels[0].evaluator
