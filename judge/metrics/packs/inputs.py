"""What a pack may show its judge of an event: the names, and how each is written into a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from judge.metric import Inputs
from judge.text.index import is_blank, neutralize
from schemas import QAEvent

TEXTS: Final = ("question", "answer", "reference", "context", "messages", "tool_calls", "other_answer")
"""Inputs with a name of their own; further ones are `fields.<name>` and `labels.<name>`."""
NAMED: Final = re.compile(r"(?:fields|labels)\.[\w.-]{1,64}", re.ASCII)


def select(event: QAEvent, uses: Collection[str]) -> Inputs:
    """Take from an event what templates use, and nothing more; the answer travels always."""
    named = sorted(name for name in uses if NAMED.fullmatch(name))
    fields = {_own(name): _named(event, name) for name in named} or None
    return replace(Inputs.of(event, {*uses, "answer"} - {"fields"}), fields=fields)


def _own(name: str) -> str:
    """The name under which a text travels: that of a label with its kind, for a field may have the same."""
    return name.removeprefix("fields.")


def _named(event: QAEvent, name: str) -> str:
    kind, _, own = name.partition(".")
    texts: Mapping[str, str] = event.labels if kind == "labels" else event.fields or {}
    return texts.get(own, "")


def is_given(inputs: Inputs, name: str) -> bool:
    """Whether there is something to show under a name; a list of no calls says that none was made."""
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
    """An input as it goes into a prompt: neutralized, and as JSON where it is more than one text.

    So no text can pass for another page, message or call.
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
    """The texts that stand under a name, one by one."""
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
    """Pages as a pack's prompt shows them: a JSON object of texts by name, so that no page forges another."""
    return _json({neutralize(name): neutralize(text) for name, text in context.items()})


_json: Final[Callable[[Any], str]] = json.JSONEncoder(ensure_ascii=False, indent=1).encode
