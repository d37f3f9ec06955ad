"""When a file is given up, on a clock that jumps."""

from __future__ import annotations

import asyncio

import pytest

from judge.errors import JudgeConfigurationError, JudgeUnavailableError
from judge.verdict.pricing import ModelPrice, PriceTable
from schemas import Usage
from streams.judging.files.judging import Checks, outage
from tests.judge.pool.test_reliable import DOWN, Server, judge_all, now, pooled, until
from tests.judge.virtual_time import run_virtually


def test_endpoints_that_stay_down_are_given_up() -> None:
    """5 s after the breaker has opened, with the reason; not while they still answer now and then."""

    async def scenario() -> None:
        server = Server(lambda *_: DOWN if now() % 10 < 3 else 0.1)
        judge, pool, _ = pooled(server, longest_breaker_seconds=1)
        giving_up = asyncio.create_task(outage(pool, seconds=5))
        await judge_all(judge, [str(number) for number in range(100)])
        assert not giving_up.done()
        server.behaviour = lambda *_: DOWN
        judging = asyncio.create_task(judge_all(judge, ["a"] * 20))
        began = now()
        assert await giving_up == "connection refused"
        assert 5 <= now() - began <= 12
        judging.cancel()
        await asyncio.gather(judging, return_exceptions=True)

    run_virtually(scenario())


@pytest.mark.parametrize("seconds", [0.5, 1.5, 5, 60])
def test_a_refused_key_is_bad_configuration_however_soon_the_file_is_given_up(seconds: float) -> None:
    """Probes are sent after 1 and 3 s here; with chance on its side 2 s are confirmed after 7 s alone."""

    async def scenario() -> None:
        refusal = JudgeConfigurationError("answered 401")
        judge, pool, _ = pooled(Server(lambda *_: refusal), confirm_seconds=2)
        giving_up = asyncio.create_task(outage(pool, seconds=seconds))
        judging = asyncio.create_task(judge_all(judge, ["a"]))
        ended, running = await asyncio.wait({giving_up, judging}, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(JudgeConfigurationError, match="401"):
            await ended.pop()
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        pool.stop()

    run_virtually(scenario())


def test_a_key_refused_after_answers_is_an_outage() -> None:
    """Any answer shows that the configuration works: a gateway behind it has failed."""

    async def scenario() -> None:
        refusal = JudgeConfigurationError("answered 401")
        server = Server(lambda *_: 0.1)
        judge, pool, _ = pooled(server, confirm_seconds=2)
        await judge_all(judge, ["a"])
        server.behaviour = lambda *_: refusal
        judging = asyncio.create_task(judge_all(judge, ["a"]))
        assert await outage(pool, seconds=5) == "answered 401"
        judging.cancel()
        await asyncio.gather(judging, return_exceptions=True)
        pool.stop()

    run_virtually(scenario())


def test_a_pause_that_an_endpoint_asks_for_is_waited_for() -> None:
    """A quarter of an hour is longer than any patience with errors, and no outage."""

    async def scenario() -> None:
        busy = JudgeUnavailableError("quota used up", kind="rate_limited", retry_after_seconds=600)
        judge, pool, _ = pooled(Server(until(now() + 600, busy)))
        giving_up = asyncio.create_task(outage(pool, seconds=5))
        await judge_all(judge, ["a"])
        assert not giving_up.done()
        giving_up.cancel()
        await asyncio.gather(giving_up, return_exceptions=True)

    run_virtually(scenario())


def test_what_checks_used_is_kept_with_its_price() -> None:
    """What is for a verdict is on its result."""
    checks = Checks(PriceTable(endpoints={"primary": ModelPrice(1.0, 1.0)}))
    usage = Usage(input_tokens=10)
    checks.used("primary", "m", usage, for_verdict=True)
    checks.used("primary", "m", usage, for_verdict=False)
    checks.used("spare", "n", usage, for_verdict=False)
    assert checks.used_up == [(usage, pytest.approx(10e-6)), (usage, None)]
