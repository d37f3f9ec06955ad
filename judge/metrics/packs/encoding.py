"""Decode a prompt pack's bytes, and repair wrong encodings."""

from __future__ import annotations

import codecs

import ftfy

from judge.errors import PromptPackError

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode(raw: bytes) -> tuple[str, list[str]]:
    r"""Decode a file, repair mojibake, and normalise line ends to `\n`.

    Returns:
        The text, and a warning for each repair.

    Raises:
        PromptPackError: It is not text.
    """
    warnings: list[str] = []
    text = _decoded(raw, warnings).replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise PromptPackError("it contains NUL characters, so it is no text file; save it as UTF-8")
    # Line by line, because a repair applies to a whole text or not at all.
    lines = text.split("\n")
    repaired = [ftfy.fix_encoding(line) for line in lines]
    changed = [number for number, (old, new) in enumerate(zip(lines, repaired, strict=True), 1) if old != new]
    if changed:
        old, new = lines[changed[0] - 1].strip(), repaired[changed[0] - 1].strip()
        warnings.append(
            f"text saved with a wrong encoding was repaired in {len(changed)} lines; "
            f"line {changed[0]} {_around(old, new)!r} became {_around(new, old)!r}; save the file as UTF-8"
        )
    return "\n".join(repaired), warnings


def _decoded(raw: bytes, warnings: list[str]) -> str:
    try:
        if raw.startswith(_UTF16_MARKS):
            return raw.decode("utf-16")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        warnings.append(
            f"it is not UTF-8 (byte {error.start}) and was read as Windows-1252; save the file as UTF-8"
        )
    return raw.decode("cp1252", "replace")


def _around(text: str, other: str) -> str:
    """Return an excerpt around the first difference of two lines."""
    start = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), 0)
    return text[max(0, start - 12) : start + 20]
