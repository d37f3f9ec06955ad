from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.wire import MalformedRequestError, Reader, Writer

_TEXT = st.text(max_size=50)
_VALUES = st.one_of(
    st.tuples(st.just("int8"), st.integers(-(2**7), 2**7 - 1)),
    st.tuples(st.just("int16"), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just("int32"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("int64"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(st.just("string"), _TEXT),
    st.tuples(st.just("nullable_string"), st.none() | _TEXT),
    st.tuples(st.just("byte_string"), st.binary(max_size=50)),
    st.tuples(st.just("array"), st.lists(_TEXT, max_size=5)),
    st.tuples(st.just("buffers"), st.lists(st.binary(max_size=20), max_size=4)),
)
_READS = ["int8", "int16", "int32", "int64", "boolean", "string", "nullable_string", "byte_string"]


def _write(writer: Writer, kind: str, value: Any) -> None:
    match kind:
        case "nullable_string":
            writer.string(value)
        case "array":
            writer.array(value, writer.string)
        case _:
            getattr(writer, kind)(value)


def _read(reader: Reader, kind: str) -> Any:
    match kind:
        case "array":
            return reader.array(reader.string)
        case "buffers" | "byte_string":
            return bytes(reader.byte_string())
        case _:
            return getattr(reader, kind)()


@given(st.lists(_VALUES))
def test_what_is_written_is_read(values: list[tuple[str, Any]]) -> None:
    """Each sequence of values is read back unchanged, and `size` is the number of bytes."""
    writer = Writer()
    for kind, value in values:
        _write(writer, kind, value)
    data = b"".join(writer.chunks())
    assert writer.size == len(data)
    reader = Reader(data)
    for kind, value in values:
        assert _read(reader, kind) == (b"".join(value) if kind == "buffers" else value)
    assert reader.remaining == 0


@given(st.binary(max_size=40), st.lists(st.sampled_from([*_READS, "array", "buffers"]), max_size=8))
def test_garbage_is_refused_and_nothing_else(data: bytes, kinds: list[str]) -> None:
    reader = Reader(data)
    try:
        for kind in kinds:
            _read(reader, kind)
    except MalformedRequestError:
        pass


def test_null_reads_as_nothing() -> None:
    """Only the nullable readers tell null from empty; a null string is refused elsewhere."""
    assert Reader(b"\xff\xff").nullable_string() is None
    assert Reader(b"\xff\xff\xff\xff").nullable_array(Reader(b"").int8) is None
    assert Reader(b"\xff\xff\xff\xff").array(Reader(b"").int8) == []
    assert bytes(Reader(b"\xff\xff\xff\xff").byte_string()) == b""
    with pytest.raises(MalformedRequestError, match="null"):
        Reader(b"\xff\xff").string()


def test_a_count_beyond_the_request_is_refused_before_memory_is_taken() -> None:
    """An array of 2**31 - 1 items in a request of 5 bytes is refused."""
    reader = Reader(b"\x7f\xff\xff\xff\x00")
    with pytest.raises(MalformedRequestError, match="2147483647 items"):
        reader.array(reader.int8)


def test_a_string_longer_than_its_length_field_can_say() -> None:
    with pytest.raises(ValueError, match="32768"):
        Writer().string("x" * 32768)
