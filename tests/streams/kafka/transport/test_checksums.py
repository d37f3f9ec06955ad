"""Checksums of fetched batches: what holds is vouched for, and nothing else."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import google_crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.transport.checksums import VouchingClient, hardware_crc32c, sums_hold

HEAD_BYTES = 61
SUMMED_FROM = 21
"""The sum is of all that follows it: base offset 8, length 4, epoch 4, magic 1 and the sum's 4 are left out.
"""


def batch(*values: bytes) -> bytes:
    """One batch as a producer writes it."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1_000_000)
    for number, value in enumerate(values):
        builder.append(number, 1_700_000_000_000, b"key", value, [])
    return bytes(builder.build())


def test_whole_batches_hold() -> None:
    """One, several, none, several of which the broker cut the last off, and one of more than a piece."""
    one, two = batch(b"a", b"b"), batch(b"c" * 200_000)
    assert DefaultRecordBatch(bytearray(one)).validate_crc()
    for records in (b"", one, one + two, one + two[:-1], one + two[:SUMMED_FROM], one + two[:5]):
        assert sums_hold(records, google_crc32c.extend)


@given(st.integers(SUMMED_FROM, HEAD_BYTES + 40), st.integers(1, 255))
def test_no_other_byte_passes(at: int, flip: int) -> None:
    """Whatever byte of what is summed changes, in whichever batch, the sum does not hold."""
    good, other = batch(b"v" * 60), batch(b"w")
    bad = bytearray(good)
    bad[at] ^= flip
    assert not sums_hold(bytes(bad), google_crc32c.extend)
    assert not sums_hold(other + bytes(bad) + other, google_crc32c.extend)


@given(st.binary(max_size=200))
def test_rubbish_raises_nothing(records: bytes) -> None:
    """No bytes make it fail."""
    assert sums_hold(records, google_crc32c.extend) in {True, False}


@pytest.mark.parametrize(
    ("at", "value"), [(16, 1), (11, 3), (8, 0xFF)], ids=["old magic", "length 3", "length < 0"]
)
def test_what_it_does_not_know_is_left_to_the_fetcher(at: int, value: int) -> None:
    """A batch of an earlier form, or one whose length is none."""
    records = bytearray(batch(b"v"))
    records[8:12] = (len(records) - 12).to_bytes(4, "big") if at == 16 else b"\x00\x00\x00\x00"
    records[at] = value
    assert not sums_hold(bytes(records), google_crc32c.extend)


class _Client:
    """Gives one reply to everything."""

    name = "the client"

    def __init__(self, reply: object) -> None:
        self.reply = reply

    async def send(self, node: int, request: str, *, group: str) -> object:
        assert (node, request, group) == (1, "request", "fetch")
        return self.reply


def _reply(*records: object) -> SimpleNamespace:
    """Partitions of one topic, with some of the fields of a fetch reply."""
    return SimpleNamespace(topics=[("t", [(number, 0, 7, one) for number, one in enumerate(records)])])


@pytest.mark.parametrize(
    ("reply", "checks"),
    [
        (_reply(batch(b"a"), b"", None, batch(b"b")), False),
        (_reply(batch(b"a"), batch(b"b")[:-1] + b"?" + batch(b"c")), True),
        (_reply(17), True),
        (SimpleNamespace(), True),
    ],
    ids=["whole", "a broken one", "offsets, no records", "no topics"],
)
async def test_the_fetcher_checks_what_nobody_vouched_for(reply: object, checks: bool) -> None:
    """The reply is passed on as it is, and everything else is the client's."""
    fetcher = SimpleNamespace(_check_crcs=not checks)
    client = VouchingClient(fetcher, _Client(reply), google_crc32c.extend)
    assert await client.send(1, "request", group="fetch") is reply
    assert fetcher._check_crcs is checks
    assert client.name == "the client"


def test_without_the_extra_there_is_no_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where the package is missing nor where it has only its Python part, which is slower than
    aiokafka's.
    """
    assert hardware_crc32c() is google_crc32c.extend
    monkeypatch.setattr(google_crc32c, "implementation", "python")
    assert hardware_crc32c() is None
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    assert hardware_crc32c() is None
