"""The question in a step's input and the answer in its output. Pure.

A workflow's input and output have the form of its function: a text, a mapping with the text under a usual
name, the arguments of a call, or messages. Any other form has no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streams.intake.reading.otlp.content.conversation import read_turns
from streams.intake.reading.otlp.content.json_text import loaded
from streams.intake.reading.otlp.content.shown import is_shown_object, shown_message

QUESTION_NAMES: Final = (
    "question",
    "query",
    "user_question",
    "user_query",
    "user_input",
    "user_message",
    "user_prompt",
    "input",
    "inputs",
    "question_text",
    "prompt",
    "message",
    "text",
    "content",
    "request",
    "q",
    "query_str",
    "new_message",
    "task",
)
ANSWER_NAMES: Final = (
    "answer",
    "final_answer",
    "final_output",
    "final_result",
    "output",
    "outputs",
    "output_text",
    "result",
    "response",
    "reply",
    "replies",
    "completion",
    "generation",
    "text",
    "content",
    "message",
    "chat_message",
    "combined_chunk_content",
)
CONTEXT_NAMES: Final = (
    "context",
    "documents",
    "pages",
    "sources",
    "passages",
    "chunks",
    "context_str",
    "docs",
)
_MAX_DEPTH: Final = 6
_CONVERSATIONS: Final = ("messages", "choices", "generations", "candidates", "lc", "role", "parts")


def question_in(value: Any) -> str | None:
    """Find the question in a step's input; None without one."""
    return _words(value, QUESTION_NAMES, "user", 0)


def answer_in(value: Any) -> str | None:
    """Find the answer in a step's output; None without one."""
    return _words(value, ANSWER_NAMES, "assistant", 0)


def _words(value: Any, names: tuple[str, ...], role: str, depth: int) -> str | None:
    opened = loaded(value)
    if isinstance(opened, str) and opened is not value:
        opened = loaded(opened)  # JSON within JSON
    if isinstance(opened, str):
        message = shown_message(opened)
        text = str(message["content"]) if message else opened
        return text if text.strip() and not is_shown_object(text) else None
    if depth > _MAX_DEPTH:
        return None
    if isinstance(opened, dict):
        return _words_of_mapping(opened, names, role, depth)
    if isinstance(opened, list) and opened:
        if len(opened) == 1 and isinstance(opened[0], str):
            return _words(opened[0], names, role, depth + 1)
        return _last(opened, role)
    return None


def _words_of_mapping(value: Mapping[str, Any], names: tuple[str, ...], role: str, depth: int) -> str | None:
    if "args" in value and isinstance(value["args"], list) and value.keys() <= {"args", "kwargs"}:
        kwargs = value.get("kwargs")
        named = _words(kwargs, names, role, depth + 1) if isinstance(kwargs, dict) and kwargs else None
        return named or _words_of_arguments(value["args"], names, role, depth)
    if any(name in value for name in _CONVERSATIONS) or ("type" in value and "data" in value):
        spoken = _last(value, role)
        if spoken is not None:
            return spoken
    for name in names:
        if value.get(name):
            found = _words(value[name], names, role, depth + 1)
            if found is not None:
                return found
    if "type" in value and "content" in value:
        return _last(value, role)
    only = next(iter(value.values())) if len(value) == 1 else None
    return only if isinstance(only, str) and _is_sentence(only) else None


def _words_of_arguments(arguments: list[Any], names: tuple[str, ...], role: str, depth: int) -> str | None:
    """Find the text among a call's arguments: the first sentence, else the first text (some are ids)."""
    found = [words for one in arguments[:20] if (words := _words(one, names, role, depth + 1)) is not None]
    return next((words for words in found if _is_sentence(words)), found[0] if found else None)


def _is_sentence(text: str) -> bool:
    return len(text.split(maxsplit=1)) > 1


def _last(value: Any, role: str) -> str | None:
    turns = [turn for turn in read_turns(value, role) if turn.role == role and turn.text.strip()]
    return turns[-1].text if turns else None
