from __future__ import annotations

import asyncio

from judge.pool.limits.waiting import Turns


async def test_ready_callbacks_run_between_two_turns() -> None:
    """Ready callbacks of the loop run between two turns."""
    turns = Turns()
    log: list[str] = []
    loop = asyncio.get_running_loop()

    async def check(name: str) -> None:
        await turns.mine()
        log.append(name)
        loop.call_soon(log.append, f"sent after {name}")

    await asyncio.gather(*(check(name) for name in "abc"))
    await asyncio.sleep(0)
    assert log == ["a", "sent after a", "b", "sent after b", "c", "sent after c"]


async def test_turns_come_in_order_and_again_after_a_pause() -> None:
    """Turns are first come, first served, also after all waiters are gone."""
    turns = Turns()
    log: list[int] = []

    async def check(number: int) -> None:
        await turns.mine()
        log.append(number)

    for _ in range(2):
        await asyncio.gather(*(check(number) for number in range(20)))
    assert log == [*range(20), *range(20)]


async def test_a_cancelled_wait_takes_no_turn() -> None:
    """A cancelled wait does not block later ones."""
    turns = Turns()
    first, second, third = (asyncio.create_task(turns.mine()) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    async with asyncio.timeout(5):
        await third
    assert first.cancelled()
    assert second.cancelled()
