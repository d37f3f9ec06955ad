from __future__ import annotations

from pathlib import Path

import pytest

from streams.store import words
from streams.store.reader import Reader
from streams.store.writer import Writer
from tests.streams.results import scored
from tests.streams.store.records import batch_of, task_record


@pytest.mark.parametrize(
    ("limit", "asked", "found"),
    [
        (9, (), None),
        (9, ("dust",), [5, 4, 3, 2, 1]),  # a prefix of a word matches
        (9, ("dust", "wren"), [4]),
        (9, ("dustw",), [5, 3]),
        (2, ("dust",), [4, 2]),  # enough texts have the exact word: the latest ones
        (2, ("dustw",), [5, 3]),
    ],
)
def test_the_latest_texts_that_have_the_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    asked: tuple[str, ...],
    found: list[int] | None,
) -> None:
    monkeypatch.setattr(words, "MAX_MATCHES", limit)
    writer = Writer(tmp_path / "s")
    texts = ("Dust.", "dust", "dustwren", "dust of a wren", "Dustwren")
    writer.write(
        batch_of(*(task_record(scored(number, 4), answer=text) for number, text in enumerate(texts)))
    )
    writer.close()
    with Reader(tmp_path / "s").asking() as asking:
        assert words.matching(asking, asked) == found
