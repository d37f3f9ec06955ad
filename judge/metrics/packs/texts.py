"""Texts of an event by name: how each is written into a prompt, and whether a quotation stands in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from judge.metric import Inputs
from judge.metrics.prompting import fence
from judge.text.normal import is_blank, neutralize, quoted
from judge.text.quotations import Quotable
from schemas import QAEvent

TEXTS: Final = ("question", "answer", "reference", "context", "messages", "tool_calls", "other_answer")
"""Named inputs; others are `fields.<name>` and `labels.<name>`."""
NAMED: Final = re.compile(r"(?:fields|labels)\.[\w.-]{1,64}", re.ASCII)
EVENT: Final = "event"
"""Placeholder of several texts in a fence that none of them can close."""
MAX_QUOTATIONS = 300
"""Limit of checked quotations per verdict; further ones count as not found."""
MAX_NAMED = 5
"""Limit of quotations listed in one error."""

TextName = str
"""One of `TEXTS`, `fields.<name>` or `labels.<name>`."""

to_json: Final[Callable[[Any], str]] = json.JSONEncoder(ensure_ascii=False, indent=1).encode


def select(event: QAEvent, uses: Collection[TextName]) -> Inputs:
    """Return the texts that templates use; the answer is always included."""
    fields = {_field(name): _named(event, name) for name in sorted(uses) if NAMED.fullmatch(name)}
    return replace(Inputs.of(event, {*uses, "answer"} - {"fields"}), fields=fields or None)


def _named(event: QAEvent, name: TextName) -> str:
    kind, _, own = name.partition(".")
    texts: Mapping[str, str] = event.labels if kind == "labels" else event.fields or {}
    return texts.get(own, "")


def _field(name: TextName) -> str:
    """Return an input's name in `Inputs.fields`; labels keep their prefix, to differ from fields."""
    return name.removeprefix("fields.")


def texts_of(inputs: Inputs, name: TextName) -> list[str]:
    """Return the texts of an input."""
    match name:
        case "context":
            return [*(inputs.context or {}).values()]
        case "messages":
            return [turn.content for turn in inputs.messages or ()]
        case "tool_calls":
            return [text for call in inputs.tool_calls or () for _, text in call]
        case "question" | "answer" | "reference" | "other_answer":
            return [getattr(inputs, name) or ""]
    return [(inputs.fields or {}).get(_field(name), "")]


def is_given(inputs: Inputs, name: TextName) -> bool:
    """Return whether an input is present; an empty list of tool calls counts as present."""
    if name == "tool_calls":
        return inputs.tool_calls is not None
    return not all(map(is_blank, texts_of(inputs, name)))


def written(inputs: Inputs, name: TextName) -> str:
    """Return an input as written into a prompt: neutralized, and as JSON if it has several texts.

    So no text can imitate another page, message or call.
    """
    if name == "context":
        return render_context(inputs.context or {})
    if name in {"messages", "tool_calls"}:
        turns = (inputs.messages if name == "messages" else inputs.tool_calls) or ()
        return to_json([{key: neutralize(text) for key, text in turn} for turn in turns])
    return neutralize(texts_of(inputs, name)[0])


def fenced(inputs: Inputs, names: Collection[TextName]) -> str:
    """Return inputs as the sections of a fence (`judge.metrics.prompting.fence`)."""
    return fence({name.replace(".", "_"): written(inputs, name) for name in names})


def render_context(context: Mapping[str, str]) -> str:
    """Return pages as a JSON object of texts by name."""
    return to_json({neutralize(name): neutralize(text) for name, text in context.items()})


class QuoteCheck:
    """Searches quotations of a verdict in the texts of one event.

    Args:
        quotes: Keys of the verdict, at any depth, with the name of the quoted text.
        inputs: The texts.
    """

    def __init__(self, quotes: Mapping[str, TextName], inputs: Inputs) -> None:
        self._quotes = quotes
        self._inputs = inputs
        self._quotables: dict[TextName, list[Quotable]] = {}

    def not_found(self, verdict: Any) -> list[str]:
        """Return messages about the quotations that are not in their text; null quotes nothing."""
        missing = []
        for number, (key, value) in enumerate(_quotations(verdict, self._quotes)):
            text = self._quotes[key]
            if value is not None and (number >= MAX_QUOTATIONS or not self._is_in(value, text)):
                missing.append(f"{key} {quoted(str(value))} is not in the {text}")
        return missing

    def count(self, verdict: Any) -> int:
        """Return the number of quotations in a verdict."""
        return sum(value is not None for _, value in _quotations(verdict, self._quotes))

    def _is_in(self, value: Any, text: TextName) -> bool:
        if text not in self._quotables:
            self._quotables[text] = [Quotable(one) for one in texts_of(self._inputs, text)]
        return isinstance(value, str) and any(one.find(value) is not None for one in self._quotables[text])


def _quotations(value: Any, keys: Collection[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in keys:
                yield key, inner
            else:
                yield from _quotations(inner, keys)
    elif isinstance(value, list):
        for inner in value:
            yield from _quotations(inner, keys)
