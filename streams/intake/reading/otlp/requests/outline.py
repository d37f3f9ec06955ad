"""What sampling looks at in a Protobuf record keyed by trace id, found by looking for that id. Pure.

A parser goes through all that the spans say. A search for the id in the bytes costs half of that, and the
fields beside it tell a root from a child. Where they are laid out otherwise than serializers do, this gives
up, and a parser has to read the record.
"""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.span import Head

_ID_TAG: Final = b"\x0a\x10"
_SPAN_ID: Final = b"\x12\x08"
_PARENT: Final = b"\x22\x08"
_NO_PARENT: Final = b"\x22\x00"
_NAME: Final = b"\x2a"
"""Tags of a span's fields 1, 2, 4 and 5, with their lengths; the Collector writes an empty parent, too."""


def outline(value: bytes, key: bytes | None) -> Head | None:
    """Count the roots of the trace whose id is a record's key.

    Args:
        value: The record's value.
        key: Its key: the trace id in hexadecimal, as the Collector writes it.

    Returns:
        None where the key is not a trace id, a span has tracestate, or the bytes are laid out in another way.
    """
    if key is None or len(key) != 32:
        return None
    try:
        trace_id = bytes.fromhex(key.decode("ascii"))
    except ValueError:
        return None
    parts = value.split(_ID_TAG + trace_id)
    if len(parts) == 1 or not _is_whole(value):
        return None
    if parts[0][-10:-8] == _SPAN_ID:  # the last field first, as the Collector writes
        del parts[-1]
        if [part for part in parts if part[-10:-8] != _SPAN_ID]:
            return None
        others = [part[-12:-10] for part in parts if part[-20:-18] != _PARENT]
        known = _NO_PARENT
    else:
        del parts[0]
        if [part for part in parts if part[:2] != _SPAN_ID]:
            return None
        others = [part[10:11] for part in parts if part[10:12] != _PARENT]
        known = _NAME
    return None if others.count(known) != len(others) else Head(trace_id.hex(), "", len(others))


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
