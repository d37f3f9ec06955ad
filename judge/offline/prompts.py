"""Read the prompts of prompt packs: the texts they contain, and the reply they request.

Texts are found by the lines that name them ("Question:", "## Answer", "**Context**") and by the JSON object
of pages; the reply's form by the response schema or the words of the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from judge.text.tags import page_number

TextName = Literal["question", "answer", "reference", "context"]

_NAMES: Mapping[TextName, str] = {
    "question": r"questions?|input|query|user(?:'s)? (?:question|query|input|message)|prompt|instruction",
    "answer": r"(?:model(?:'s)? |candidate |system |ai |assistant(?:'s)? )?(?:answer|response|output|reply|completion)"  # noqa: E501
    r"(?: (?:to (?:judge|evaluate|rate|grade)|under (?:test|judgement|evaluation)))?|output_text|assistant",
    "reference": r"(?:(?:reference|expected|ideal|gold|golden|correct|known good|ground[- ]truth)(?: (?:answer|response|output))?)",  # noqa: E501
    "context": r"(?:page |retrieved |source )?(?:context|pages|documents|passages|sources)",
}
_LABEL = re.compile(
    r"^[ \t]*(?:[#>*_<\[]+[ \t]*)?(?:(?:the|given)[ \t]+)?(?:"
    + "|".join(f"(?P<{name}>{words})" for name, words in _NAMES.items())
    + r")(?:[ \t]*\([^()\n]{0,40}\))?[ \t]*(?:[*_>\]]+[ \t]*)?(?P<colon>:)?[ \t]*(?:[*_]+)?(?P<rest>[^\n]*)$",
    re.IGNORECASE | re.MULTILINE,
)
_MARKED = re.compile(r"[ \t]*[#*_<\[]")
_INTEGERS = r"(-?\d{1,4})\s*(?:\([^()\n]{0,60}\)\s*)?(?:to|and|\.\.|-|\u2013|\u2014|through)\s*(-?\d{1,4})\b"
_RANGES = (
    re.compile(rf"whole number from {_INTEGERS}"),
    re.compile(
        rf"(?:from|between|scale(?: of)?|range(?: of)?|score\W{{0,4}}|integer|rat(?:e|ing)\W{{0,4}})\s*\W?{_INTEGERS}",  # noqa: E501
        re.IGNORECASE,
    ),
    re.compile(rf"[(<\[]\s*{_INTEGERS}"),
)
_DEFAULT_RANGE = (1, 5)
_VALUE = r"(?:\"[^\"\n]{1,60}\"|\b(?:true|false)\b)"
_CHOICES = re.compile(
    rf"\"score\\?\"(?:[ \t]{{0,3}}:|[ \t]must be one of)[ \t]{{0,3}}"
    rf"(?P<values>{_VALUE}(?:[ \t]{{0,3}}(?:\||/|,|\bor\b)[ \t]{{0,3}}(?:or[ \t])?{_VALUE}){{1,19}})"
)
_ONE = re.compile(_VALUE)
_CONTEXT = re.compile(rf"\b(?:{_NAMES['context']})\W*\Z", re.IGNORECASE)
MAX_OBJECTS = 20
"""Limit of JSON objects that are tried as pages."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The texts of a prompt to be judged."""

    answer: str
    question: str = ""
    reference: str = ""
    pages: Mapping[str, str] | None = None
    """The texts of the context by page; None if there is none."""


def read_shown(message: str) -> Shown:
    """Return the texts in a filled-in template.

    Args:
        message: The user's turn. Without any naming line, all of it is taken as the answer.
    """
    texts: dict[str, str] = {}
    pages, rest = _pages(message)
    labels = [match for match in _LABEL.finditer(rest) if match["colon"] or _MARKED.match(match[0])]
    for place, label in enumerate(labels):
        end = labels[place + 1].start() if place + 1 < len(labels) else len(rest)
        name = next(name for name in _NAMES if label[name] is not None)
        texts.setdefault(name, rest[label.start("rest") : end].strip())
    context = texts.get("context", "")
    return Shown(
        answer=texts.get("answer", "" if texts else rest.strip()),
        question=texts.get("question", ""),
        reference=texts.get("reference", ""),
        pages=pages or ({"Page-1": context} if context else None),
    )


def read_range(texts: Sequence[str], schema: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return the lowest and highest score that a prompt requests.

    Args:
        texts: The texts of all turns; later ones take precedence, because they may be repair turns.
        schema: The response schema; its bounds take precedence.
    """
    score = (schema or {}).get("properties", {}).get("score", {})
    bounds = score if isinstance(score, Mapping) else {}
    if (
        isinstance(bounds.get("enum"), list)
        and all(type(one) is int for one in bounds["enum"])
        and bounds["enum"]
    ):
        return min(bounds["enum"]), max(bounds["enum"])
    if type(bounds.get("minimum")) is int and type(bounds.get("maximum")) is int:
        return bounds["minimum"], bounds["maximum"]
    for pattern in _RANGES:
        for text in reversed(texts):
            for match in pattern.finditer(text):
                low, high = int(match[1]), int(match[2])
                if low < high:
                    return low, high
    return _DEFAULT_RANGE


def read_choices(texts: Sequence[str], schema: Mapping[str, Any] | None) -> tuple[str | bool, ...]:
    """Return the labels, or true and false, that a prompt offers; empty if it requests a number.

    Args:
        texts: The texts of all turns; repair turns list the choices, too.
        schema: The response schema; its type takes precedence.
    """
    score = (schema or {}).get("properties", {}).get("score", {})
    if isinstance(score, Mapping):
        choices = score.get("enum")
        if isinstance(choices, list) and choices and all(isinstance(one, str | bool) for one in choices):
            return tuple(choices)
        if score.get("type") == "boolean":
            return (True, False)
    for text in reversed(texts):
        if found := _CHOICES.search(text):
            return tuple(json.loads(one) for one in _ONE.findall(found["values"]))
    return ()


def fill(schema: Mapping[str, Any], *, score: float | str | bool, reason: str) -> Any:
    """Return the simplest value that is valid by a JSON Schema, with score and reason.

    Args:
        schema: The schema, or a part of it.
        score: Value of the property `score`.
        reason: Value of every text.
    """
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("anyOf"):
        return fill(schema["anyOf"][0], score=score, reason=reason)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {
            name: score if name == "score" else fill(part, score=score, reason=reason)
            for name, part in schema.get("properties", {}).items()
        }
    if kind == "array":
        return [fill(schema.get("items", {}), score=score, reason=reason)] * int(schema.get("minItems", 0))
    simple: Mapping[str, Any] = {
        "integer": schema.get("minimum", 0),
        "number": schema.get("minimum", 0),
        "boolean": False,
        "null": None,
    }
    return simple.get(kind, reason[: schema.get("maxLength", 1000)])


def _pages(message: str) -> tuple[dict[str, str], str]:
    """Return the JSON object of pages in a message, and the message without it."""
    decoder = json.JSONDecoder()
    for match in islice(re.finditer(r'\{\s*"', message), MAX_OBJECTS):
        try:
            found, end = decoder.raw_decode(message, match.start())
        except (ValueError, RecursionError):
            continue
        is_texts = isinstance(found, dict) and found and all(isinstance(text, str) for text in found.values())
        before = message[max(0, match.start() - 60) : match.start()]
        if is_texts and (any(page_number(name) is not None for name in found) or _CONTEXT.search(before)):
            return found, message[: match.start()] + message[end:]
    return {}, message
