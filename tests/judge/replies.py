"""Replies of a judge to the built-in metrics in evidence mode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def listed_item(span: str, answer_span: str | None, *, name: str | None = None) -> Json:
    return {
        "item": span if name is None else name,
        "reference_span": span,
        "answer_span": answer_span,
        "justification": "So it says.",
        "matched": answer_span is not None,
    }


def coverage_reply(
    facts: Iterable[Json] = (),
    conclusions: Iterable[Json] = (),
    terms: Iterable[Json] = (),
) -> Json:
    return {
        "facts": [*facts],
        "conclusions": [*conclusions],
        "terms": [*terms],
        "organization": {"similar": True, "justification": "Both are short."},
    }


def listed_claim(span: str, pages: Iterable[int], page_span: str | None, **changes: Any) -> Json:
    cited = [*pages]
    return {
        "claim_span": span,
        "pages": cited,
        "page": cited[0] if cited else None,
        "page_span": page_span,
        "justification": "So it says.",
        "supported": page_span is not None,
        "relevant": True,
        **changes,
    }


def relevance_reply(claims: Iterable[Json], *, score: Any = 5) -> Json:
    return {"claims": [*claims], "justification": "All fine.", "score": score}
