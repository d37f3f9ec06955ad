"""Texts that have some words."""

from __future__ import annotations

from streams.store.filters import MAX_MATCHES
from streams.store.reader import Asking


def matching(asking: Asking, words: tuple[str, ...]) -> list[int] | None:
    """Give the numbers of the latest texts that have all of some words, at most `MAX_MATCHES`.

    None for no words.

    Args:
        asking: The store.
        words: Each without white space; the beginning of a word is enough.
    """
    if not words:
        return None
    if (known := asking.matches.get(words)) is not None:
        return known
    # Whole words first: of a common word the latest texts are read one by one, while all texts of all words
    # that begin with it would have to be put in order before.
    found = _latest(asking, words, "")
    if len(found) < MAX_MATCHES:
        found = _latest(asking, words, "*")
    asking.matches[words] = found
    return found


def _latest(asking: Asking, words: tuple[str, ...], ending: str) -> list[int]:
    # Each word is quoted, so none is mistaken for an operator of the search.
    question = " ".join(f'"{word.replace(chr(34), "")}"{ending}' for word in words)
    rows = asking.rows(
        "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT ?", (question, MAX_MATCHES)
    )
    return [row[0] for row in rows]
