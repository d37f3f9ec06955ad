"""Roots of the trace in a Protobuf record keyed by trace id, found by searching for the id. Pure.

Parsing the record costs several times the search, and the fields beside the id distinguish a root from a
child. A record whose fields are in another order than serializers write needs a parser.
"""

from __future__ import annotations

from binascii import unhexlify
from typing import Final

_ID_TAG: Final = b"\x0a\x10"
_SPAN_ID: Final = b"\x12\x08"
_PARENT: Final = b"\x22\x08"
_NO_PARENT: Final = b"\x22\x00"
_NAME: Final = b"\x2a"
"""Tags of a span's fields 1, 2, 4 and 5, with their lengths; the Collector writes an empty parent, too."""


def trace_id_of(key: bytes | None) -> bytes | None:
    """Read a record's key: the trace id in hexadecimal, as the Collector writes it; None for another key."""
    if key is None or len(key) != 32:
        return None
    try:
        return unhexlify(key)
    except ValueError:
        return None


def count_roots(value: bytes, trace_id: bytes) -> int | None:
    """Count the roots of a trace.

    Args:
        value: The record's value.
        trace_id: 16 bytes.

    Returns:
        None where no span of the trace is found, one has tracestate, or the fields have another order.
    """
    parts = value.split(_ID_TAG + trace_id)
    if len(parts) == 1 or not _is_whole(value):
        return None
    # The Collector writes the last field first, so that the others of a span come before its trace id.
    return _before(parts[:-1]) if parts[0][-10:-8] == _SPAN_ID else _after(parts[1:])


def _before(parts: list[bytes]) -> int | None:
    roots = 0
    for part in parts:
        if part[-10:-8] != _SPAN_ID:
            return None
        if part[-20:-18] != _PARENT:
            if part[-12:-10] != _NO_PARENT:
                return None
            roots += 1
    return roots


def _after(parts: list[bytes]) -> int | None:
    roots = 0
    for part in parts:
        if part[:2] != _SPAN_ID:
            return None
        if part[10:12] != _PARENT:
            if part[10:11] != _NAME:
                return None
            roots += 1
    return roots


def _is_whole(value: bytes) -> bool:
    """Whether the outermost messages, one for each resource, end where the record ends."""
    at, end = 0, len(value)
    while at < end and value[at] == _ID_TAG[0]:
        size = shift = 0
        more = True
        while more:
            at += 1
            if at >= end or shift > 28:
                return False
            size |= (value[at] & 0x7F) << shift
            shift += 7
            more = value[at] > 0x7F
        at += 1 + size
    return at == end
