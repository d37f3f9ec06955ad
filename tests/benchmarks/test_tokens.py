from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tokens
from benchmarks.__main__ import BENCHMARKS
from benchmarks.tokens import PAGES, document, measured


def event(number: int, pages: int) -> dict[str, Any]:
    context = {f"Page-{page}": f"Passage {page} of text {number} says so." for page in range(1, pages + 1)}
    answer = "\n".join(
        f"Passage {page} of text {number} says so. Evidence: [Page {page}]" for page in range(1, pages + 1)
    )
    return {"event_id": f"e-{number}", "question": "What is said?", "answer": answer, "context": context}


def test_a_document_has_the_events_pages_and_others() -> None:
    """A document has 20 pages: the event's own, unchanged or as the start of longer pages, and others."""
    own = event(1, 3)["context"]
    others = [f"other {number}" for number in range(5)]
    plain = document(own, others, start=7, words_a_page=0)
    assert len(plain) == PAGES
    assert {name: plain[name] for name in own} == own
    # Start 7 modulo 5 is 2: other 2 comes first.
    assert [plain[f"Page-{number}"] for number in (4, 5, 6, 7)] == [
        "other 2",
        "other 3",
        "other 4",
        "other 0",
    ]
    long = document(own, others, start=0, words_a_page=30)
    assert all(len(text.split()) >= 30 for text in long.values())
    assert all(long[name].startswith(text) for name, text in own.items())


def test_events_that_cite_three_pages_are_measured() -> None:
    """Fewer characters are sent, with the same verdict."""
    found = measured([event(1, 3), event(2, 5), event(3, 3), event(4, 0)], words_a_page=0)
    assert len(found) == 2
    for one in found:
        assert one.texts < one.all_texts < one.all_pages
        assert one.instructions + one.texts < one.sent < one.all_pages
        assert one.same_verdict


def test_absent_data_is_named_and_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing data is named on stderr and gives a line without a value."""
    monkeypatch.setenv("JUDGESTREAM_DATA", str(tmp_path))
    lines: Iterator[dict[str, object]] = tokens.run()
    assert [line["value"] for line in lines] == [None]
    assert "expertqa_events.jsonl is not there" in capsys.readouterr().err
    assert "tokens" in BENCHMARKS
