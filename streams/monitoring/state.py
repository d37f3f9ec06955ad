"""The monitor's state as records: one per series, and one per partition with its next offset. Pure.

Records may be lost or old: state is a shortcut, and the observations can be read again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streams.monitoring.alerts import SeriesKey

VERSION: Final = 1
MAX_STATE_BYTES: Final = 64 * 1024 * 1024
"""Maximum unpacked size of a record."""


@dataclass(frozen=True, slots=True)
class SeriesState:
    """The saved state of a series.

    Attributes:
        next: The offset of the first observation not included.
        state: The state that `Monitor.take_changes` returned.
    """

    next: int
    state: Mapping[str, Any]


@dataclass(slots=True)
class Kept:
    """The saved state of one partition of observations.

    Attributes:
        next: The offset of the first observation that a series may lack; None if nothing was saved.
        series: The state of each series.
    """

    next: int | None = None
    series: dict[SeriesKey, SeriesState] = field(default_factory=dict)


def mark_key(partition: int) -> bytes:
    """Return the key of the record with a partition's next offset."""
    return json.dumps([partition]).encode()


def series_key(partition: int, key: SeriesKey) -> bytes:
    """Return the key of a series' record."""
    return json.dumps([partition, key.metric, key.fingerprint, key.labels]).encode(errors="surrogatepass")


def pack(next_offset: int, state: Mapping[str, Any] | None = None) -> bytes:
    """Return the value of a record."""
    content = json.dumps({"version": VERSION, "next": next_offset, "state": state}, separators=(",", ":"))
    return zlib.compress(content.encode(errors="surrogatepass"))


def take(kept: Kept, partition: int, key: bytes | None, value: bytes | None) -> None:
    """Add one record of the topic, in order, to a partition's saved state.

    Args:
        kept: The saved state, which is updated.
        partition: The partition of observations; records of others are skipped.
        key: The record's key.
        value: The record's value; None removes a series.

    Raises:
        ValueError, KeyError, TypeError, IndexError, zlib.error: The record has another form.
    """
    parts = json.loads(key or b"[]")
    if not parts or parts[0] != partition:
        return
    if len(parts) == 1:
        kept.next = None if value is None else int(_unpack(value)["next"])
        return
    metric, fingerprint, labels = parts[1:]
    name = SeriesKey(metric, fingerprint, tuple((label, text) for label, text in labels))
    if value is None:
        kept.series.pop(name, None)
        return
    content = _unpack(value)
    kept.series[name] = SeriesState(int(content["next"]), content["state"])


def _unpack(value: bytes) -> Any:
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(value, MAX_STATE_BYTES)
    if unpacking.unconsumed_tail:
        raise ValueError(f"a state must unpack to at most {MAX_STATE_BYTES} bytes; it is not a monitor state")
    content = json.loads(text)
    if content["version"] != VERSION:
        raise ValueError(f"a state must be of version {VERSION}, got {content['version']}")
    return content
