"""How the monitor's state lies in its topic: a record a series, and one a partition with its reach. Pure.

Every record can be lost or old without harm: state is a shortcut to what reading the observations again would
give.
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
"""A record that unpacks to more is not ours."""


@dataclass(frozen=True, slots=True)
class SeriesState:
    """What was kept of one series.

    Attributes:
        next: The offset of the first observation that is not in it.
        state: As `Monitor.take_changes` gave it.
    """

    next: int
    state: Mapping[str, Any]


@dataclass(slots=True)
class Kept:
    """What was kept of one partition of observations.

    Attributes:
        next: The offset of the first observation that some series may lack; None where nothing was kept.
        series: The state of each series.
    """

    next: int | None = None
    series: dict[SeriesKey, SeriesState] = field(default_factory=dict)


def mark_key(partition: int) -> bytes:
    """The key of the record that says how far a partition's states reach."""
    return json.dumps([partition]).encode()


def series_key(partition: int, key: SeriesKey) -> bytes:
    """The key of a series' record."""
    return json.dumps([partition, key.metric, key.fingerprint, key.labels]).encode(errors="surrogatepass")


def pack(next_offset: int, state: Mapping[str, Any] | None = None) -> bytes:
    """Write the value of a record."""
    content = json.dumps({"version": VERSION, "next": next_offset, "state": state}, separators=(",", ":"))
    return zlib.compress(content.encode(errors="surrogatepass"))


def take(kept: Kept, partition: int, key: bytes | None, value: bytes | None) -> None:
    """Take one record of the topic, in its order, into what was kept of a partition.

    Args:
        kept: Is changed.
        partition: Of the observations; records of others are skipped.
        key: The record's.
        value: The record's; None removes a series.

    Raises:
        ValueError, KeyError, TypeError, IndexError, zlib.error: The record is not one of ours.
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
