"""Forms of context that retrievers produce."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from schemas import QAEvent

EVENT = {"event_id": "e", "question": "q", "answer": "a"}


@pytest.mark.parametrize(
    ("given", "pages"),
    [
        (None, None),
        ({}, {}),
        ({"Page-1": "one"}, {"Page-1": "one"}),
        ({"faq": {"text": "one"}}, {"faq": "one"}),
        (["one", "two"], {"Page-1": "one", "Page-2": "two"}),
        ([{"id": "doc-3", "text": "one"}, {"page_content": "two"}], {"doc-3": "one", "Page-2": "two"}),
        ([{"page": 7, "content": "one"}, "two"], {"7": "one", "Page-2": "two"}),
        ([{"id": "x", "text": "one"}, {"id": "x", "text": "two"}], {"x": "one", "Page-2": "two"}),
    ],
)
def test_pages_by_name(given: Any, pages: dict[str, str] | None) -> None:
    """Pages without a name are numbered by their position."""
    assert QAEvent.model_validate({**EVENT, "context": given}).context == pages


@pytest.mark.parametrize("given", [[1], [None], [{"id": "x"}], {"a": 3}, {"a": {"title": "t"}}, "text", 7])
def test_a_page_without_text_is_refused(given: Any) -> None:
    """A page without text is refused; the error names the field."""
    with pytest.raises(ValidationError, match="context"):
        QAEvent.model_validate({**EVENT, "context": given})


def test_an_event_has_at_most_ten_thousand_pages() -> None:
    """More than 10,000 pages are one error, not one for each page."""
    many: tuple[Any, ...] = ([1] * 10_001, {str(number): 1 for number in range(10_001)})
    for given in many:
        with pytest.raises(ValidationError, match="must have at most 10000 pages, got 10001") as refused:
            QAEvent.model_validate({**EVENT, "context": given})
        assert refused.value.error_count() == 1


def test_long_lists_of_another_shape_are_passed_over() -> None:
    given: dict[str, Any] = dict.fromkeys(("messages", "tool_calls", "fields"), [{}] * 1_000_000)
    event = QAEvent.model_validate({**EVENT, **given})
    assert (event.messages, event.tool_calls, event.fields) == (None, None, None)
