"""Decompression of batches has a size limit."""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from aiokafka import codec as theirs
from aiokafka.errors import CorruptRecordException
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka import decoding

PAIRS: dict[str, tuple[Callable[[bytes], bytes], Callable[[Any], bytes]]] = {
    "gzip": (theirs.gzip_encode, decoding.gzip_decode),
    "snappy": (theirs.snappy_encode, decoding.snappy_decode),
    "snappy, raw": (lambda text: bytes(cramjam.snappy.compress_raw(text)), decoding.snappy_decode),
    "lz4": (theirs.lz4_encode, decoding.lz4_decode),
    "zstd": (theirs.zstd_encode, decoding.zstd_decode),
}
NAMES = st.sampled_from(sorted(PAIRS))


@given(NAMES, st.binary(max_size=100_000))
def test_what_was_compressed_comes_back(name: str, text: bytes) -> None:
    """Each codec decompresses bytes and memoryviews."""
    encode, decode = PAIRS[name]
    packed = encode(text)
    assert decode(packed) == decode(memoryview(packed)) == text


@given(NAMES, st.binary(max_size=300))
def test_anything_else_is_corrupt(name: str, junk: bytes) -> None:
    """Any bytes are decompressed or raise CorruptRecordException."""
    with contextlib.suppress(CorruptRecordException):
        assert isinstance(PAIRS[name][1](junk), bytes)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_more_than_the_bound_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of 1 MiB, 1 MiB is decompressed and one byte more is refused."""
    monkeypatch.setattr(decoding, "UNPACKED_BYTES", 1 << 20)
    encode, decode = PAIRS[name]
    assert len(decode(encode(b" " * (1 << 20)))) == 1 << 20
    with pytest.raises(decoding.OversizedError, match="more than 1048576 bytes"):
        decode(encode(b" " * ((1 << 20) + 1)))


def test_gzip_in_several_members_is_corrupt() -> None:
    """No producer writes several members; many empty ones would take quadratic time."""
    with pytest.raises(CorruptRecordException, match="one complete member"):
        decoding.gzip_decode(zlib.compress(b"ab", wbits=31) * 2)


def test_a_snappy_block_of_negative_length_is_corrupt() -> None:
    packed = theirs.snappy_encode(b"text")[:16] + struct.pack(">i", -5) + b"x"
    with pytest.raises(CorruptRecordException):
        decoding.snappy_decode(packed)
