"""The monitor's state as records: one per series, and one mark per partition with its next offset. Pure.

The mark lists its series with the digest of their records, so that a lost, old or damaged record is noticed
and its series learnt again: state is a shortcut, and the observations can be read again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from streams.monitoring.alerts import SeriesKey

VERSION: Final = 2
"""Written; version 1 is read, too. Releases that know only version 1 learn again from the observations."""
MAX_STATE_BYTES: Final = 64 * 1024 * 1024
"""Maximum unpacked size of a record."""


@dataclass(frozen=True, slots=True)
class SeriesState:
    """The saved state of a series, with the offset of the first observation not included."""

    next: int
    state: Mapping[str, Any]
    digest: str


@dataclass(slots=True)
class Kept:
    """The saved state of one partition of observations.

    Attributes:
        next: The offset of the first observation that a series may lack; None if nothing was saved.
        heard: The latest timestamp of the observations before it, seconds since the epoch; None in marks of
            earlier releases.
        listed: The digest of each series' record, "" if it was too large; None in marks of earlier releases.
        series: The state of each series.
        damaged: Series whose latest record cannot be read.
    """

    next: int | None = None
    heard: float | None = None
    listed: dict[SeriesKey, str] | None = None
    series: dict[SeriesKey, SeriesState] = field(default_factory=dict)
    damaged: set[SeriesKey] = field(default_factory=set)

    def incomplete(self) -> set[SeriesKey]:
        """Return the series that were saved and whose record is missing, damaged or older than the mark."""
        listed = {} if self.listed is None else self.listed
        return {
            key
            for key in self.damaged | set(listed)
            if (series := self.series.get(key)) is None
            or (series.digest != listed.get(key) and series.next <= (self.next or 0))
        }


def mark_key(partition: int) -> bytes:
    """Return the key of the record with a partition's next offset."""
    return json.dumps([partition]).encode()


def series_key(partition: int, key: SeriesKey) -> bytes:
    """Return the key of a series' record."""
    return json.dumps([partition, *_parts(key)]).encode(errors="surrogatepass")


def pack_mark(next_offset: int, heard: float, listed: Mapping[SeriesKey, str]) -> bytes:
    """Return the value of a mark."""
    series = [[*_parts(key), digest] for key, digest in listed.items()]
    return _pack({"version": VERSION, "next": next_offset, "heard": heard, "series": series})


def pack_series(next_offset: int, state: Mapping[str, Any]) -> bytes:
    """Return the value of a series' record."""
    return _pack({"version": VERSION, "next": next_offset, "state": state})


def digest_of(value: bytes) -> str:
    """Return the digest by which a mark names a record."""
    return sha256(value).hexdigest()[:16]


def take(kept: Kept, partition: int, key: bytes | None, value: bytes | None) -> None:
    """Add one record of the topic, in order, to a partition's saved state.

    Args:
        partition: The partition of observations; records of others are skipped.
        value: The record's value; None removes a series.

    Raises:
        Exception: The record has another form. Of a series it is then noted as damaged.
    """
    parts = json.loads(key or b"[]")
    if not parts or parts[0] != partition:
        return
    if len(parts) == 1:
        _take_mark(kept, value)
        return
    name = _key(*parts[1:])
    kept.series.pop(name, None)
    kept.damaged.add(name)
    if value is not None:
        content = _unpack(value)
        kept.series[name] = SeriesState(int(content["next"]), content["state"], digest_of(value))
    kept.damaged.discard(name)


def _take_mark(kept: Kept, value: bytes | None) -> None:
    content: Mapping[str, Any] = {"next": None} if value is None else _unpack(value)
    listed, heard, following = content.get("series"), content.get("heard"), content["next"]
    series = None if listed is None else {_key(*parts): str(digest) for *parts, digest in listed}
    kept.next = None if following is None else int(following)
    kept.heard = None if heard is None else float(heard)
    kept.listed = series


def _parts(key: SeriesKey) -> list[Any]:
    return [key.metric, key.fingerprint, key.labels]


def _key(metric: str, fingerprint: str, labels: list[list[str]]) -> SeriesKey:
    return SeriesKey(metric, fingerprint, tuple((label, text) for label, text in labels))


def _pack(content: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(errors="surrogatepass"))


def _unpack(value: bytes) -> Any:
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(value, MAX_STATE_BYTES)
    if unpacking.unconsumed_tail:
        raise ValueError(f"a state must unpack to at most {MAX_STATE_BYTES} bytes; it is not a monitor state")
    content = json.loads(text)
    if not 1 <= content["version"] <= VERSION:
        raise ValueError(f"a state must be of version 1 to {VERSION}, got {content['version']}")
    return content
