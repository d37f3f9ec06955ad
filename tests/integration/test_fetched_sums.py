"""Checksums of fetched batches: which code verifies them, and what happens to a damaged batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams.kafka.transport import checksums, consumer_thread
from tests.integration.deadlines import until
from tests.integration.test_transport import Bench, bench

__all__ = ["bench"]


def _fetcher(app: Any) -> Any:
    return app.consumer._thread._consumer._fetcher


async def test_the_processor_checks_and_aiokafka_does_not(bench: Bench) -> None:
    """With hardware CRC-32C the fetcher of aiokafka does not verify checksums."""
    await bench.produce(20)
    async with bench.app() as (app, hands):
        await until(lambda: len(hands.taken) == 20, "twenty records")
        assert isinstance(_fetcher(app)._client, checksums.VouchingClient)
        assert not _fetcher(app)._check_crcs


async def test_without_the_extra_aiokafka_checks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, aiokafka verifies checksums."""
    monkeypatch.setattr(consumer_thread, "hardware_crc32c", lambda: None)
    await bench.produce(20)
    async with bench.app() as (app, hands):
        await until(lambda: len(hands.taken) == 20, "twenty records")
        assert _fetcher(app)._check_crcs


class _Damaging:
    """A client that flips a bit in the last record of every fetch reply.

    All replies are changed because one to a fetch before the committed offset is discarded.
    """

    def __init__(self, client: Any, change: Callable[[bytes | None], bytes | None]) -> None:
        self._client = client
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        reply = await self._client.send(*args, **kwargs)
        if type(reply).__name__.startswith("FetchResponse"):
            reply.topics = [
                (topic, [(*one[:-1], self._change(one[-1])) for one in partitions])
                for topic, partitions in reply.topics
            ]
        return reply


def _flipped(records: bytes | None) -> bytes | None:
    return records and records[:-2] + bytes([records[-2] ^ 1]) + records[-1:]


async def test_a_damaged_batch_is_set_aside_and_the_next_one_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three damaged fetches the batch is delivered as unreadable, and the next batch is read."""
    damage = True

    def flipped(records: bytes | None) -> bytes | None:
        return _flipped(records) if damage else records

    def vouching(fetcher: Any, client: Any, extend: Callable[[int, bytes], int]) -> checksums.VouchingClient:
        return checksums.VouchingClient(fetcher, _Damaging(client, flipped), extend)

    monkeypatch.setattr(consumer_thread, "VouchingClient", vouching)
    await bench.produce(3, value=b"whole")
    async with bench.app() as (_, hands):
        await until(lambda: len(hands.taken) >= 1, "the damaged batch")
        damage = False
        await bench.produce(1, value=b"whole")
        await until(lambda: hands.taken[-1][1].message.value == b"whole", "a batch that is whole")
        aside = hands.taken[0][1].message
    assert (aside.offset, aside.value) == (0, None)
    assert "checksum is wrong" in aside.unreadable.detail
    assert aside.unreadable.records in {1, 2, 3}
