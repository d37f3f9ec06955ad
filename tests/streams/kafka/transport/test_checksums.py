from __future__ import annotations

import sys
from types import SimpleNamespace

import google_crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.transport.checksums import VouchingClient, hardware_crc32c, sums_hold
from tests.streams.kafka.transport.logs import batch

HEAD_BYTES = 61
SUMMED_FROM = 21
"""The checksum covers all bytes after base offset 8, length 4, epoch 4, magic 1 and checksum 4."""


def test_whole_batches_hold() -> None:
    """Whole batches are valid, also with a truncated last batch or of more than one piece."""
    one, two = batch([b"a", b"b"]), batch([b"c" * 200_000])
    assert DefaultRecordBatch(bytearray(one)).validate_crc()
    for records in (b"", one, one + two, one + two[:-1], one + two[:SUMMED_FROM], one + two[:5]):
        assert sums_hold(records, google_crc32c.extend)


@given(st.integers(SUMMED_FROM, HEAD_BYTES + 40), st.integers(1, 255))
def test_no_other_byte_passes(at: int, flip: int) -> None:
    """A change of any covered byte in any batch makes the checksum invalid."""
    good, other = batch([b"v" * 60]), batch([b"w"])
    bad = bytearray(good)
    bad[at] ^= flip
    assert not sums_hold(bytes(bad), google_crc32c.extend)
    assert not sums_hold(other + bytes(bad) + other, google_crc32c.extend)


@given(st.binary(max_size=200))
def test_any_bytes_raise_nothing(records: bytes) -> None:
    """Any bytes give a result without an exception."""
    assert sums_hold(records, google_crc32c.extend) in {True, False}


@pytest.mark.parametrize(
    ("at", "value"), [(16, 1), (11, 3), (8, 0xFF)], ids=["old magic", "length 3", "length < 0"]
)
def test_unknown_batches_are_not_vouched_for(at: int, value: int) -> None:
    """A batch of an old format, or with an invalid length, is not vouched for."""
    records = bytearray(batch([b"v"]))
    records[8:12] = (len(records) - 12).to_bytes(4, "big") if at == 16 else b"\x00\x00\x00\x00"
    records[at] = value
    assert not sums_hold(bytes(records), google_crc32c.extend)


class _Client:
    """Gives the same reply to each request."""

    name = "the client"

    def __init__(self, reply: object) -> None:
        self.reply = reply

    async def send(self, node: int, request: str, *, group: str) -> object:
        assert (node, request, group) == (1, "request", "fetch")
        return self.reply


def _reply(*records: object) -> SimpleNamespace:
    """Return a fetch reply of one topic with these partitions."""
    return SimpleNamespace(topics=[("t", [(number, 0, 7, one) for number, one in enumerate(records)])])


@pytest.mark.parametrize(
    ("reply", "checks"),
    [
        (_reply(batch([b"a"]), b"", None, batch([b"b"])), False),
        (_reply(batch([b"a"]), batch([b"b"])[:-1] + b"?" + batch([b"c"])), True),
        (_reply(17), True),
        (SimpleNamespace(), True),
    ],
    ids=["whole", "a broken one", "offsets, no records", "no topics"],
)
async def test_the_fetcher_checks_unverified_batches(reply: object, checks: bool) -> None:
    """The fetcher checks only replies that were not verified; replies are passed on unchanged."""
    fetcher = SimpleNamespace(_check_crcs=not checks)
    client = VouchingClient(fetcher, _Client(reply), google_crc32c.extend)
    assert await client.send(1, "request", group="fetch") is reply
    assert fetcher._check_crcs is checks
    assert client.name == "the client"


def test_without_the_extra_there_is_no_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, or with only its slow Python implementation, there is no function."""
    assert hardware_crc32c() is google_crc32c.extend
    monkeypatch.setattr(google_crc32c, "implementation", "python")
    assert hardware_crc32c() is None
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    assert hardware_crc32c() is None
