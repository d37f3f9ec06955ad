"""Full-text search."""

from __future__ import annotations

from streams.store.filters import MAX_MATCHES
from streams.store.reader import Asking


def matching(asking: Asking, words: tuple[str, ...]) -> list[int] | None:
    """Return the ids of the latest texts with all of some words, at most `MAX_MATCHES`; None without words.

    Args:
        asking: The store.
        words: Words or prefixes of words, each without white space.
    """
    if not words:
        return None
    if (known := asking.matches.get(words)) is not None:
        return known
    # Whole words first: their latest texts are read in order, while a prefix search must sort all matches.
    found = _latest(asking, words, "")
    if len(found) < MAX_MATCHES:
        found = _latest(asking, words, "*")
    asking.matches[words] = found
    return found


def _latest(asking: Asking, words: tuple[str, ...], ending: str) -> list[int]:
    # Quote each word, so that none is a search operator.
    question = " ".join(f'"{word.replace(chr(34), "")}"{ending}' for word in words)
    rows = asking.rows(
        "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT ?", (question, MAX_MATCHES)
    )
    return [row[0] for row in rows]
