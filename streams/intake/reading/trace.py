"""W3C Trace Context, read forgivingly: no answer is worth losing over its trace."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_TRACESTATE_CHARS = 512
"""Longest tracestate that is kept (what the specification asks everybody to carry at least)."""

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}(?P<rest>-.*)?", re.ASCII
)
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Where an answer belongs in a trace."""

    trace_id: str
    span_id: str
    tracestate: str | None


def normal_trace_id(value: str | None) -> str | None:
    """Put a trace id in its one form: lower case; empty or all zeros is none."""
    if not value:
        return None
    lowered = value.lower()
    return None if lowered == _NO_TRACE else lowered


def normal_span_id(value: str | None) -> str | None:
    """Put a span id in its one form: lower case; empty or all zeros is none."""
    if not value:
        return None
    lowered = value.lower()
    return None if lowered == _NO_SPAN else lowered


def normal_tracestate(value: str | None) -> str | None:
    """Give a tracestate, or none when it is empty or too long to carry."""
    return value if value and len(value) <= MAX_TRACESTATE_CHARS else None


def parse_trace_context(traceparent: str, tracestate: str | None) -> TraceContext | None:
    """Read a traceparent and its tracestate; None when the traceparent is malformed.

    Version 00 has exactly four parts; later versions may have more, ff is forbidden, ids of zeros are
    invalid.
    """
    match = _TRACEPARENT.fullmatch(traceparent.strip(" \t"))
    if match is None or (match["rest"] and traceparent.lstrip(" \t").startswith("00")):
        return None
    if match["trace"] == _NO_TRACE or match["span"] == _NO_SPAN:
        return None
    return TraceContext(match["trace"], match["span"], normal_tracestate(tracestate))


def trace_from_headers(headers: Iterable[tuple[str, bytes | None]]) -> TraceContext | None:
    """Read the trace context of a record's headers; None where there is none that is well formed.

    `traceparent` and `tracestate` count before the CloudEvents attributes `ce_traceparent` and
    `ce_tracestate`. A traceparent given twice is malformed; several tracestates are one list, as W3C Trace
    Context says.
    """
    values: dict[str, list[str]] = {}
    for name, value in headers:
        if name.endswith(("traceparent", "tracestate")) and value is not None:
            # Latin-1 reads any bytes; what is not ASCII does not match and so is ignored.
            values.setdefault(name, []).append(value.decode("latin-1"))
    if not values:
        return None
    for prefix in ("", "ce_"):
        parents = values.get(f"{prefix}traceparent", ())
        if len(parents) == 1:
            states = values.get(f"{prefix}tracestate")
            context = parse_trace_context(parents[0], ",".join(states) if states else None)
            if context is not None:
                return context
    return None
