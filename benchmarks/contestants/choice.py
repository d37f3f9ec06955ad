"""Minimal selection of events for the bare client and the peers. Only the standard library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

_RANGE = 1 << 56


def by_key(rate: float) -> Callable[[bytes, bytes], bool]:
    """Keep a share of the records, by the hash of their key."""
    limit = _RANGE - round(rate * _RANGE)
    sha256 = hashlib.sha256

    def keep(key: bytes, value: bytes) -> bool:  # noqa: ARG001 - one form for both choices
        return int.from_bytes(sha256(key).digest()[:7], "big") >= limit

    return keep


def by_label(rates: dict[str, float], default: float, name: str) -> Callable[[bytes, bytes], bool]:
    """Keep a share of the records by the hash of the event id, with a share per label value."""
    limits = {value: _RANGE - round(rate * _RANGE) for value, rate in rates.items()}
    otherwise = _RANGE - round(default * _RANGE)
    sha256 = hashlib.sha256

    def keep(key: bytes, value: bytes) -> bool:  # noqa: ARG001 - one form for both choices
        event = json.loads(value)
        limit = limits.get(event["labels"][name], otherwise)
        return int.from_bytes(sha256(event["event_id"].encode()).digest()[:7], "big") >= limit

    return keep


def choice(plan: dict[str, Any]) -> Callable[[bytes, bytes], bool]:
    """Build the selection that a plan names."""
    if plan["choice"] == "key":
        return by_key(plan["rate"])
    return by_label(plan["rates"], plan["rate"], plan["label"])


def handed_on(value: bytes) -> bytes:
    """Return the record for a kept event: the texts that a judge needs."""
    event = json.loads(value)
    wanted = ("event_id", "question", "answer", "reference", "labels")
    return json.dumps({name: event[name] for name in wanted}).encode()
