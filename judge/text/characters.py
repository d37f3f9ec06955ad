"""Make untrusted text safe to quote or send."""

from __future__ import annotations

from judge.text.index import neutralize

MAX_QUOTED_CHARS = 120


def quoted(text: str) -> str:
    """Return the text in double quotes, on one line, at most 120 characters, without invisible ones."""
    line = " ".join(neutralize(text[: 4 * MAX_QUOTED_CHARS]).split())
    return f'"{line}"' if len(line) <= MAX_QUOTED_CHARS else f'"{line[: MAX_QUOTED_CHARS - 1]}…"'


def without_lone_surrogates(text: str) -> str:
    """Return the text with each lone surrogate replaced by U+FFFD; a pair becomes its character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
