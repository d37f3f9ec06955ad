"""Prompts of the library: inputs, scale, counted items and quotations of each metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import yaml

from judge.chat import ResponseSchema
from judge.metrics.packs.kinds import Choice, read_choice
from judge.metrics.packs.quotes import QuotedText, read_quotes
from judge.metrics.packs.templates import split_front_matter
from judge.metrics.prompting import load_prompt
from judge.metrics.scoring import RELEVANCE_RANGE

TextName = Literal["question", "answer", "context", "instructions"]
"""`instructions`: the system messages of the conversation."""

LIBRARY: Final = (
    "faithfulness",
    "answer_relevance",
    "completeness",
    "refusal",
    "tone",
    "toxicity",
    "pii_leak",
    "instruction_following",
    "context_relevance",
    "hallucinated_citation",
)
"""Prompts by metric name; their scales are in docs/verdicts.md."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Items that the judge lists and code counts.

    Args:
        list: Key of the list.
        holds: Key of an item's boolean that counts in favour.
        every: Whether the list must contain each text of the context.
        compare: Whether an item and its support are statements that may contradict each other.
        optional: Whether an item may lack a quotation, because it depends on what is not said.
    """

    list: str
    holds: str
    every: bool
    compare: bool
    optional: bool


@dataclass(frozen=True, slots=True)
class LibraryPrompt:
    """One metric's prompt.

    Args:
        name: The metric.
        system: Its instructions.
        uses: The texts in its prompt.
        score_range: Lowest and highest score.
        choice: The judge's choices; None: a whole number.
        counted: The counted items; None: the judge decides.
        quotes: Keys of quotations; for a list the first is the item's own.
        schema: Schema of the reply.
    """

    name: str
    system: str
    uses: tuple[TextName, ...]
    score_range: tuple[int, int]
    choice: Choice | None
    counted: Counted | None
    quotes: Mapping[str, QuotedText]
    schema: ResponseSchema


@cache
def library_prompt(name: str) -> LibraryPrompt:
    """Return the prompt of a library metric.

    Args:
        name: A key of `LIBRARY`.
    """
    front, system = split_front_matter(load_prompt(f"library/{name}"))
    given: dict[str, Any] = yaml.safe_load(front or "")
    choice = read_choice(given["result"], good=given.get("good")) if "result" in given else None
    counts = given.get("counts")
    counted = None
    if counts is not None:
        counted = Counted(
            list=counts["list"],
            holds=counts["holds"],
            every=counts.get("every") == "context",
            compare=bool(counts.get("compare")),
            optional=bool(counts.get("optional")),
        )
    quotes = read_quotes(given["quotes"])
    low, high = given.get("score_range", RELEVANCE_RANGE)
    return LibraryPrompt(
        name=name,
        system=system.strip() + "\n",
        uses=tuple(given["uses"]),
        score_range=(low, high) if choice is None else choice.score_range,
        choice=choice,
        counted=counted,
        quotes=quotes,
        schema=ResponseSchema(f"{name}_evidence", _schema(choice, counted, tuple(quotes))),
    )


def _schema(choice: Choice | None, counted: Counted | None, quotes: tuple[str, ...]) -> dict[str, Any]:
    text, optional = {"type": "string"}, {"type": ["string", "null"]}
    if counted is not None:
        own = {"name": text} if counted.every else {}
        spans = {key: optional if counted.every or place else text for place, key in enumerate(quotes)}
        item = _object({**own, **spans, "justification": text, counted.holds: {"type": "boolean"}})
        return _object({counted.list: {"type": "array", "items": item}})
    score: dict[str, Any] = {"type": "integer"}
    if choice is not None:
        score = {"type": "boolean"} if choice.is_boolean else {"type": "string", "enum": list(choice.labels)}
    return _object({**dict.fromkeys(quotes, optional), "justification": text, "score": score})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
