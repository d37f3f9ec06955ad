"""Text from events on a terminal: whatever a producer wrote, it moves no cursor and paints nothing."""

from __future__ import annotations


def printable(text: str, limit: int | None = None) -> str:
    r"""Make a text safe to print on one line.

    White space becomes single spaces; every other character that does not print (control characters, direction
    overrides, lone surrogates) is shown as its escape, such as `\x1b`.

    Args:
        text: Anything.
        limit: Most characters to keep; a longer text ends with an ellipsis.
    """
    if limit is not None and len(text) > 4 * limit + 64:
        # Cut before the work: an answer may be megabytes long.
        text = text[: 4 * limit + 64]
    words = " ".join(text.split())
    if not words.isprintable():
        words = "".join(char if char.isprintable() else _escape(char) for char in words)
    if limit is not None and len(words) > limit:
        return words[: max(limit - 1, 0)].rstrip() + "…"
    return words


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
