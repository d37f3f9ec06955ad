from __future__ import annotations

import pytest

from streams.intake.reader import TraceContext, parse_trace_context, trace_from_headers

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
OTHER = f"00-{'1' * 32}-{SPAN}-01"


@pytest.mark.parametrize(
    "text", [PARENT, f" {PARENT}\t", f"01-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-01-what-comes"]
)
def test_well_formed(text: str) -> None:
    """Later versions of traceparent may have more parts."""
    assert parse_trace_context(text, "a=b") == TraceContext(TRACE, SPAN, "a=b")


@pytest.mark.parametrize(
    "text",
    [
        "", TRACE, f"ff-{TRACE}-{SPAN}-01", f"{PARENT}-more", PARENT.upper(), f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}", f"0-{TRACE}-{SPAN}-01", f"{PARENT}\n",
        PARENT.replace("0", "\u0660"),
    ],
)  # fmt: skip
def test_malformed(text: str) -> None:
    assert parse_trace_context(text, None) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        ([("traceparent", PARENT.encode())], TraceContext(TRACE, SPAN, None)),
        ([("tracestate", b"a=b")], None),
        ([("traceparent", b"\xff"), ("tracestate", b"a=b")], None),
        ([("traceparent", None)], None),
        (
            [("tracestate", b"a=b"), ("traceparent", PARENT.encode()), ("tracestate", b"c=d")],
            TraceContext(TRACE, SPAN, "a=b,c=d"),
        ),
        ([("traceparent", PARENT.encode()), ("tracestate", b"a=" + b"x" * 511)],
            TraceContext(TRACE, SPAN, None)),
        ([("traceparent", PARENT.encode()), ("traceparent", OTHER.encode())], None),
        ([("ce_traceparent", OTHER.encode()), ("traceparent", PARENT.encode())],
            TraceContext(TRACE, SPAN, None)),
        (
            [("ce_traceparent", PARENT.encode()), ("ce_tracestate", b"a=b"), ("traceparent", b"bad")],
            TraceContext(TRACE, SPAN, "a=b"),
        ),
        ([("my-traceparent", PARENT.encode())], None),
    ],
)  # fmt: skip
def test_headers(headers: list[tuple[str, bytes | None]], expected: TraceContext | None) -> None:
    """Exactly one valid traceparent is used, with its tracestate; CloudEvents attributes are the fallback."""
    assert trace_from_headers(headers) == expected
