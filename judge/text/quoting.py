"""Quoting judged text in a message: on one line, short, harmless."""

from __future__ import annotations

from judge.text.index import neutralize

MAX_QUOTED_CHARS = 120


def quoted(text: str) -> str:
    """The text in double quotes, on one line, cut to 120 characters, without control or unseen characters."""
    line = " ".join(neutralize(text[: 4 * MAX_QUOTED_CHARS]).split())
    return f'"{line}"' if len(line) <= MAX_QUOTED_CHARS else f'"{line[: MAX_QUOTED_CHARS - 1]}…"'
