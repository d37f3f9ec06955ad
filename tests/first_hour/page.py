"""The commands of a page and their shown output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Typed(NamedTuple):
    """A command without its prompt, and the lines shown under it: `...` is any text, or, alone, any lines."""

    command: str
    shown: tuple[str, ...]


def commands(page: Path, *, before: str) -> Iterator[Typed]:
    """Read the `console` blocks of a page up to a heading."""
    text = page.read_text(encoding="utf-8").partition(before)[0]
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            yield Typed(command, tuple(shown))


def shows(expected: tuple[str, ...], said: str) -> bool:
    """Whether the output is what the page shows, from the first to the last line."""
    parts = [
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"[ ]*\n"
        for line in expected
    ]
    return re.fullmatch("".join(parts), said.strip("\n") + "\n") is not None


def shows_each(expected: tuple[str, ...], said: str) -> bool:
    """Whether the output has each line, in any order."""
    return all(
        re.search("^" + re.escape(line).replace(r"\.\.\.", ".*"), said, re.MULTILINE) for line in expected
    )
