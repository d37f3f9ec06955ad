"""The randomness R of an event, and the threshold T of a rate: 56 bits each. Pure.

Each event has 56 bits of randomness R. A rate p gives a threshold T, and the event is kept iff R >= T; its
inclusion probability is then exactly (2^56 - T) / 2^56. The rule and the `ot=rv:` entry of tracestate are
those of OpenTelemetry's specification of consistent probability sampling and of tracestate handling. So a
redelivered event gets the same decision, and raising a rate never drops an event that was kept.

R is, in this order: the `rv` value of the `ot` entry in tracestate (14 hexadecimal digits); the last 14
digits of the trace id, unless the id is all zeros, which W3C Trace Context calls invalid; the first seven
bytes, big endian, of SHA-256 over the event id in UTF-8. With `record_key` it is the hash of the record's key
instead, so that all events with one key get the same decision; a record without a key (or with an empty one)
uses the list above.
"""

from __future__ import annotations

import hashlib
import math
import re
from fractions import Fraction
from typing import Final

from streams.intake.tracestate import random_value

RANDOM_BITS: Final = 56
RANGE: Final = 1 << RANDOM_BITS
"""Number of values of R."""
_TRACE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NO_TRACE: Final = "0" * 32


def threshold(rate: Fraction | float) -> int:
    """Return the threshold T of a rate.

    The number of kept values is p * 2^56 rounded up, so that no positive rate becomes 0.

    Args:
        rate: Share to keep, 0 to 1; a float is converted exactly.

    Returns:
        From 0 (keep all) to 2^56 (keep none).

    Raises:
        ValueError: The rate is not within 0 to 1.
    """
    exact = Fraction(rate)
    if not 0 <= exact <= 1:
        raise ValueError(f"rate must be from 0 to 1, got {rate}; choose a share")
    return RANGE - math.ceil(exact * RANGE)


def probability(threshold_: int) -> Fraction:
    """Return the exact inclusion probability of a threshold."""
    return Fraction(RANGE - threshold_, RANGE)


def trace_randomness(trace_id: str | None, tracestate: str | None) -> int | None:
    """Return R of a trace context; None without a valid one.

    Args:
        trace_id: W3C trace id, 32 lower-case hexadecimal digits.
        tracestate: W3C tracestate; read only with a valid trace id, as W3C Trace Context requires.
    """
    if trace_id is None or trace_id == _NO_TRACE or not _TRACE_ID.fullmatch(trace_id):
        return None
    explicit = random_value(tracestate)
    return int(trace_id[-14:], 16) if explicit is None else explicit


def hashed_randomness(identity: bytes) -> int:
    """Return R of an identity: the first seven bytes of its SHA-256, big endian."""
    return int.from_bytes(hashlib.sha256(identity).digest()[:7], "big")


def event_randomness(event_id: str, trace_id: str | None, tracestate: str | None) -> int:
    """Return R of an event: from its trace context, else from its id."""
    traced = trace_randomness(trace_id, tracestate)
    return hashed_randomness(event_id.encode()) if traced is None else traced
