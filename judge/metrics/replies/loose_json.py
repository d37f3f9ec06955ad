"""Lenient JSON parser: trailing commas, Python's quotes and names, line breaks in strings. Pure.

Ambiguous text is an error. One pass over the text, bounded in depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

_TOKEN = re.compile(
    r"""\s*+(?:(?P<sign>[{}\[\],:])"""
    r"""|(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+')"""
    r"""|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![\w.]))"""
    r"""|(?P<name>[A-Za-z_]\w*+))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "/": "/",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "\n": "",
}
_NAMES = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_CONSTANTS = frozenset({"NaN", "Infinity", "nan", "inf"})


class LooseJSONError(ValueError):
    """The text has no single meaning as JSON."""


def read_loosely(
    text: str,
    start: int,
    *,
    max_depth: int,
    pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]],
    constant: Callable[[str], NoReturn],
) -> tuple[dict[str, Any], int]:
    """Parse the object at an opening brace.

    Args:
        text: The text.
        start: Offset of the brace.
        max_depth: Limit of nesting.
        pairs: Builds an object from pairs, as in `json.JSONDecoder`.
        constant: Called with the name of a number that JSON lacks (NaN, Infinity); must raise.

    Returns:
        The object and its end offset.

    Raises:
        LooseJSONError: It is no object, or ambiguous.
    """
    reader = _Reader(text, start, max_depth, pairs, constant)
    return reader.value(), reader.position


class _Reader:
    def __init__(
        self,
        text: str,
        position: int,
        max_depth: int,
        pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]],
        constant: Callable[[str], NoReturn],
    ) -> None:
        self._text = text
        self._depth = max_depth
        self._pairs = pairs
        self._constant = constant
        self.position = position
        self._kind, self._lexeme = "", ""
        self._next()

    def value(self) -> Any:
        """Parse the value at the current lexeme and move `position` behind it."""
        kind, lexeme = self._kind, self._lexeme
        if kind == "string":
            return _unescaped(lexeme)
        if kind == "number":
            return int(lexeme) if lexeme.lstrip("-").isdecimal() and len(lexeme) < 25 else float(lexeme)
        if kind == "name" and lexeme in _NAMES:
            return _NAMES[lexeme]
        if lexeme in _CONSTANTS:
            self._constant(lexeme)
        if lexeme not in {"{", "["}:
            raise self._unexpected()
        if self._depth == 0:
            raise LooseJSONError("it is nested too deeply")
        self._depth -= 1
        read = self._object() if lexeme == "{" else self._array()
        self._depth += 1
        return read

    def _object(self) -> dict[str, Any]:
        found: list[tuple[str, Any]] = []
        while self._following("}"):
            if self._kind not in {"string", "name"}:
                raise self._unexpected()
            name = self._lexeme if self._kind == "name" else _unescaped(self._lexeme)
            self._next()
            if self._lexeme != ":" or self._kind != "sign":
                raise self._unexpected()
            self._next()
            found.append((name, self.value()))
            if not self._goes_on("}"):
                break
        return self._pairs(found)

    def _array(self) -> list[Any]:
        found: list[Any] = []
        while self._following("]"):
            found.append(self.value())
            if not self._goes_on("]"):
                break
        return found

    def _following(self, end: str) -> bool:
        """Return whether another element follows, and make it the current lexeme."""
        self._next()
        return not (self._kind == "sign" and self._lexeme == end)

    def _goes_on(self, end: str) -> bool:
        """Return whether a comma follows, not the end."""
        self._next()
        if self._kind == "sign" and self._lexeme == end:
            return False
        if self._kind == "sign" and self._lexeme == ",":
            return True
        raise self._unexpected()

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self.position)
        if match is None or match.lastgroup is None:
            rest = self._text[self.position : self.position + 20].strip()
            raise LooseJSONError(
                f"it ends in the middle or goes on with {rest!r} at character {self.position}"
            )
        self._kind, self._lexeme, self.position = match.lastgroup, match[match.lastgroup], match.end()

    def _unexpected(self) -> LooseJSONError:
        return LooseJSONError(f"{self._lexeme[:20]!r} is unexpected before character {self.position}")


def _unescaped(lexeme: str) -> str:
    inner = lexeme[1:-1]
    if "\\" not in inner:
        return inner
    text = _ESCAPE.sub(_character, inner)
    # Two escaped surrogates are one character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, f"\\{code}")
