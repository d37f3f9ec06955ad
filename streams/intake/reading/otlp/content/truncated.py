"""JSON that a limit on the length of attributes cut at its end. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

_BEGINS: Final = re.compile(r"""\s*(?:\{\s*"|\[\s*[\[{"])""")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[][{},]', re.DOTALL)
_HALF_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CLOSING: Final = {"{": "}", "[": "]"}
MAX_DEPTH: Final = 200


def completed(text: str) -> Any:
    """Parse JSON up to where it was cut; None if the text does not begin as JSON.

    Args:
        text: A text that is not valid JSON.
    """
    if not _BEGINS.match(text):
        return None
    closing: list[str] = []
    safe = (0, "")  # the end of the last complete value, and the closing brackets
    last = ""
    for match in _TOKEN.finditer(text):
        last = match[0]
        if last in _CLOSING:
            closing.append(_CLOSING[last])
            safe = (match.end(), "".join(reversed(closing)))
        elif last == ",":
            safe = (match.start(), "".join(reversed(closing)))
        elif last in {"}", "]"} and (not closing or closing.pop() != last or not closing):
            return None  # the JSON ends before the text, or it is not JSON
        if len(closing) > MAX_DEPTH:
            return None
    rest = "".join(reversed(closing))
    whole = text
    if last[:1] == '"' and text.endswith(last) and (len(last) == 1 or last[-1] != '"' or _escaped(last)):
        whole = _HALF_ESCAPE.sub("", text) + '"'
    for candidate in (whole + rest, text[: safe[0]] + safe[1]):
        try:
            return orjson.loads(candidate)
        except orjson.JSONDecodeError:
            continue
    return None


def _escaped(text: str) -> bool:
    """Whether the last quotation mark is escaped."""
    return bool((len(text) - len(text[:-1].rstrip("\\")) - 1) % 2)
