"""Log records of model calls, read as spans. Pure."""

from __future__ import annotations

from typing import Any

from streams.intake.reading.otlp.span import Attributes, Span


def log_span(
    trace_id: str,
    span_id: str,
    event_name: str,
    scope: str,
    resource: Attributes,
    attributes: dict[str, Any],
    body: Any,
    at: int,
) -> Span:
    """Make a span of a log record.

    Args:
        trace_id: The trace's id.
        span_id: Id of the span that it belongs to.
        event_name: The event's name; older instrumentations write it as an attribute.
        scope: Name of the instrumentation.
        resource: Attributes of the service.
        attributes: Attributes of the log record.
        body: Its body.
        at: Its time in nanoseconds since the epoch.
    """
    name = event_name or attributes.get("event.name")
    if isinstance(body, dict):
        attributes = {**_of_body(body), **attributes, "body": body}
    elif isinstance(body, str) and isinstance(name, str) and name.startswith("gen_ai."):
        attributes = {**attributes, "body": body}
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id="",
        tracestate=_tracestate(attributes),
        name=name if isinstance(name, str) else "",
        scope=scope,
        resource=resource,
        attributes=attributes,
        start=at,
        end=at,
        is_log=True,
    )


def _tracestate(attributes: dict[str, Any]) -> str:
    """What the Collector's sampler writes on log records in place of `ot=th` in tracestate.

    With a randomness of its own it has not decided by the trace id, as is done here, and says nothing of use.
    """
    threshold = attributes.get("sampling.threshold")
    by_trace_id = isinstance(threshold, str) and "sampling.randomness" not in attributes
    return f"ot=th:{threshold}" if by_trace_id else ""


def _of_body(body: dict[str, Any]) -> dict[str, Any]:
    """The content of a log record's body, under the names that others use for attributes."""
    found = {name: value for name, value in body.items() if name.startswith("gen_ai.")}
    for name in ("input", "output"):  # AWS Distro for OpenTelemetry
        exchanged = body.get(name)
        if isinstance(exchanged, dict) and "messages" in exchanged:
            found[f"gen_ai.{name}.messages"] = exchanged["messages"]
    return found
