"""Python objects that an instrumentation wrote with `str` or `repr`. Pure."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

_OBJECT: Final = re.compile(
    r"<[A-Za-z_][\w.]*(?: object\b|\()|[\[{]?(?:'\w{1,50}': |\w{1,50}=)?\[?[A-Z]\w*\([a-z_]\w*="
)
_BEGINS: Final = ("{'", "[{'", "['", "[('")
_MAX_LITERAL_CHARS: Final = 20_000
"""Longer ones are not parsed: Python takes a microsecond for each character."""
_LITERAL: Final = r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_MESSAGE: Final = re.compile(
    rf"content={_LITERAL} (?P<rest>(?=.*?(?:additional_kwargs|tool_call_id)=).*)", re.DOTALL
)
_DOCUMENT: Final = re.compile(rf"page_content={_LITERAL}(?= metadata=|\Z)", re.DOTALL)
_CALL_ID: Final = re.compile(r"\btool_call_id='([^']{1,200})'")
_REPLIED: Final = ("usage_metadata=", "response_metadata={'", "tool_calls=[")
"""Only messages of a model have these."""


def is_shown_object(text: str) -> bool:
    """Whether a text is the `repr` of an object: `<Stream object at 0x7f>`, `StopEvent(result=1)`."""
    return _OBJECT.match(text) is not None


def python_literal(text: str) -> Any:
    """Parse a list or mapping that was written with `str`; None for any other text."""
    if not text.startswith(_BEGINS) or len(text) > _MAX_LITERAL_CHARS:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def shown_message(text: str) -> dict[str, Any] | None:
    """Read a message of LangChain; None for any other text."""
    match = _MESSAGE.match(text) if text.startswith("content=") else None
    if match is None:
        return None
    call_id = _CALL_ID.search(match["rest"])
    replied = any(mark in match["rest"] for mark in _REPLIED)
    role = "tool" if call_id else "assistant" if replied else "user"
    content = _literal(match["text"])
    return {"role": role, "content": content, **({"tool_call_id": call_id[1]} if call_id else {})}


def shown_document(text: str) -> str | None:
    """Read the text of a LangChain document; None for any other text."""
    match = _DOCUMENT.match(text) if text.startswith("page_content=") else None
    return None if match is None else _literal(match["text"])


def _literal(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):  # a NUL, or a line feed that was not escaped
        return text[1:-1]
