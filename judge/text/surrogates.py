"""Half surrogate pairs: JSON and some producers can spell them, no encoder takes them."""

from __future__ import annotations


def without_lone_surrogates(text: str) -> str:
    """Return the text with each lone surrogate replaced by U+FFFD; a pair becomes its character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
