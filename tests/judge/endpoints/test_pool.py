"""The judging stack is opened and closed as one."""

from __future__ import annotations

import asyncio

import pytest

from judge.endpoints.clients import ScriptedChat
from judge.endpoints.options import EndpointOptions
from judge.endpoints.pool import EndpointPool
from judge.errors import EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.cache import MemoryCache
from judge.metrics.coverage import Coverage
from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import parse_pack
from schemas import Unscored
from tests.judge.endpoints.servers import Server, now
from tests.judge.tasks import TONE, make_task
from tests.judge.virtual_time import virtually


class NotedCache(MemoryCache):
    closed = False

    def close(self) -> None:
        self.closed = True


async def test_the_stack_closes_only_its_own_endpoints() -> None:
    own, lent, cache = ScriptedChat([]), ScriptedChat([], endpoint="lent"), NotedCache(1)
    async with EndpointPool([EndpointOptions(own), EndpointOptions(lent, borrowed=True)], cache=cache):
        assert not own.closed
    assert (own.closed, lent.closed, cache.closed) == (True, False, True)


async def test_a_text_beyond_the_smallest_window_is_not_sent() -> None:
    chat = ScriptedChat(["{}"] * 9, endpoint="narrow")
    reference = "".join(f"The tower number {number} stands in the town. " for number in range(200))
    async with EndpointPool([EndpointOptions(chat, context_tokens=9_000)]) as pool:
        result = await pool.judge(Coverage()).judge(make_task("coverage", reference=reference))
    assert isinstance(result, Unscored)
    assert result.reason == "too_long"
    assert isinstance(result.evidence, dict)
    assert int(str(result.evidence["estimated_tokens"])) > int(str(result.evidence["limit"]))
    assert chat.requests == []


async def test_a_metric_is_judged_at_the_endpoints_that_it_names() -> None:
    names = ("large", "small")
    large, small = (ScriptedChat(lambda _: '{"score": 4}', endpoint=one, model=one) for one in names)
    first = EndpointOptions(large, parameters={"seed": 1, "top_p": 0.5})
    async with EndpointPool([first, EndpointOptions(small, parameters={"seed": 1})]) as pool:
        judge = pool.judge(TONE, endpoints=["small"], parameters={"seed": 7})
        result = await judge.judge(make_task("tone"))
        assert result.judge is not None
        assert (result.judge.endpoint, result.judge.fallback) == ("small", False)
        assert result.evaluator.parameters == {"seed": 7}
        turned = await pool.judge(TONE, endpoints=["small", "large"]).judge(make_task("tone"))
        assert turned.judge is not None
        assert turned.judge.endpoint == "small"
        everywhere = await pool.judge(TONE).judge(make_task("tone"))
        assert everywhere.judge is not None
        assert everywhere.judge.endpoint == "large"
        assert everywhere.evaluator.parameters == {"seed": 1, "top_p": 0.5}
        assert len(large.requests) == 1
        told = "no judge endpoint is called medium; known: large, small"
        with pytest.raises(JudgeConfigurationError, match=told):
            pool.judge(TONE, endpoints=["medium"])


@virtually
async def test_a_metric_whose_endpoints_are_down_waits_while_others_are_judged() -> None:
    began = now()
    down = JudgeUnavailableError("gone")
    small = Server(lambda *_: down if now() - began < 60 else 0.1, endpoint="small")
    large = Server(lambda *_: 0.1, endpoint="large")
    async with EndpointPool([EndpointOptions(large), EndpointOptions(small)], clock=now) as pool:
        everywhere, there = pool.judge(TONE), pool.judge(TONE, endpoints=["small"])
        waiting = [asyncio.create_task(there.judge(make_task("tone"))) for _ in range(20)]
        await asyncio.sleep(30)
        assert (pool.trouble or "").startswith("gone. ")
        assert (await everywhere.judge(make_task("tone"))).status == "scored"
        assert not any(one.done() for one in waiting)
        results = await asyncio.gather(*waiting)
        assert {one.judge.endpoint for one in results if one.judge} == {"small"}
        assert str(pool.trouble) == "None"
        assert now() - began <= 70


@virtually
async def test_a_metric_that_cannot_be_judged_takes_no_endpoint_down() -> None:
    refusal = EventError("rejected_request", "answered 400")
    server = Server(lambda _, text: refusal if text.startswith("curt:") else 0.1)
    pack = parse_pack(b'[{role: user, content: "curt: {answer}"}]', dialect="yaml", origin="p")
    async with EndpointPool([EndpointOptions(server)], clock=now) as pool:
        tone, curt = pool.judge(TONE), pool.judge(PackMetric("curt", pack, score_range=(1, 5)))
        failed = [asyncio.create_task(curt.judge(make_task("curt", answer=str(one)))) for one in range(20)]
        scored = [asyncio.create_task(tone.judge(make_task("tone", answer=str(one)))) for one in range(20)]
        assert {one.status for one in await asyncio.gather(*failed)} == {"failed"}
        assert {one.status for one in await asyncio.gather(*scored)} == {"scored"}
        (state,) = pool.states
        assert (state.up, state.failed_share) == (True, 0)
        assert sum(text.startswith("curt:") for _, text in server.calls) <= 20 * 4 + 20


async def test_a_reply_about_another_event_is_asked_for_again_on_a_new_connection() -> None:
    """Its quotations stand nowhere in what was sent; a reply without quotations is taken as it is."""
    foreign = '{"score": 4, "answer_span": "The second lake is 31 km long."}'
    own = '{"score": 2, "answer_span": "It is in Paris."}'
    chat = ScriptedChat([foreign, own, foreign, foreign, '{"score": 3}'])
    async with EndpointPool([EndpointOptions(chat)]) as pool:
        judge = pool.judge(TONE)
        scores = [await judge.judge(make_task("tone", answer="It is in Paris.")) for _ in range(3)]
    assert [getattr(one, "score", None) for one in scores] == [2, 4, 3]  # asked again once, not for ever
    assert [request.fresh for request in chat.requests] == [False, True, False, True, False]
