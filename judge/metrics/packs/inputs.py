"""Texts of an event that a pack may use: names, and how each is written into a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from judge.metric import Inputs
from judge.text.normal import is_blank, neutralize
from schemas import QAEvent

TEXTS: Final = ("question", "answer", "reference", "context", "messages", "tool_calls", "other_answer")
"""Named inputs; others are `fields.<name>` and `labels.<name>`."""
NAMED: Final = re.compile(r"(?:fields|labels)\.[\w.-]{1,64}", re.ASCII)


def select(event: QAEvent, uses: Collection[str]) -> Inputs:
    """Return the texts that templates use; the answer is always included."""
    named = sorted(name for name in uses if NAMED.fullmatch(name))
    fields = {_own(name): _named(event, name) for name in named} or None
    return replace(Inputs.of(event, {*uses, "answer"} - {"fields"}), fields=fields)


def _own(name: str) -> str:
    """Return an input's name in `Inputs.fields`; labels keep their prefix, to differ from fields."""
    return name.removeprefix("fields.")


def _named(event: QAEvent, name: str) -> str:
    kind, _, own = name.partition(".")
    texts: Mapping[str, str] = event.labels if kind == "labels" else event.fields or {}
    return texts.get(own, "")


def is_given(inputs: Inputs, name: str) -> bool:
    """Return whether an input is present; an empty list of tool calls counts as present."""
    match name:
        case "context":
            return any(not is_blank(text) for text in (inputs.context or {}).values())
        case "messages":
            return any(not is_blank(one.content) for one in inputs.messages or ())
        case "tool_calls":
            return inputs.tool_calls is not None
        case "question" | "answer" | "reference" | "other_answer":
            return not is_blank(getattr(inputs, name))
    return not is_blank((inputs.fields or {}).get(_own(name)))


def written(inputs: Inputs, name: str) -> str:
    """Return an input as written into a prompt: neutralized, and as JSON if it has several texts.

    So no text can imitate another page, message or call.
    """
    match name:
        case "context":
            return render_context(inputs.context or {})
        case "messages" | "tool_calls":
            turns = (inputs.messages if name == "messages" else inputs.tool_calls) or ()
            return _json([{key: neutralize(text) for key, text in turn} for turn in turns])
        case "question" | "answer" | "reference" | "other_answer":
            return neutralize(getattr(inputs, name) or "")
    return neutralize((inputs.fields or {}).get(_own(name), ""))


def texts_of(inputs: Inputs, name: str) -> list[str]:
    """Return the texts of an input."""
    match name:
        case "context":
            return [*(inputs.context or {}).values()]
        case "messages":
            return [one.content for one in inputs.messages or ()]
        case "tool_calls":
            return [text for one in inputs.tool_calls or () for text in (one.name, one.arguments, one.result)]
        case "question" | "answer" | "reference" | "other_answer":
            return [getattr(inputs, name) or ""]
    return [(inputs.fields or {}).get(_own(name), "")]


def render_context(context: Mapping[str, str]) -> str:
    """Return pages as a JSON object of texts by name, so that no page can imitate another."""
    return _json({neutralize(name): neutralize(text) for name, text in context.items()})


_json: Final[Callable[[Any], str]] = json.JSONEncoder(ensure_ascii=False, indent=1).encode
