"""Metric library: metrics enabled by name, each a prompt file whose front matter says what code checks.

If a prompt lists items, code verifies their quotations and counts (`relevance_cap`). Else the judge decides,
and its quotations must be in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from judge.chat import ChatRequest, ResponseSchema
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Outcome, UnscoredOutcome
from judge.metrics.base import BuiltInMetric, Findings, Scale, read_scale
from judge.metrics.packs.metric import QuoteCheck
from judge.metrics.packs.templates import render_context, split_front_matter
from judge.metrics.prompting import array_of, load_prompt, object_schema
from judge.metrics.replies import MAX_ITEMS, extract_object, extract_verdict
from judge.metrics.scoring import RELEVANCE_RANGE, relevance_cap
from judge.text.normal import is_blank, normalise, quoted
from judge.text.passages import passage
from schemas import JudgeTask, QAEvent

Item = dict[str, Any]


class Counts(BaseModel):
    """Items that the judge lists and code counts; `list` is their key, `holds` the good boolean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    list: str
    holds: str
    every: Literal["context"] | None = None  # the list must have each text of it
    compare: bool = False  # an item and its support may contradict each other
    optional: bool = False  # an item may lack a quotation, as it depends on what is not said


class LibraryPrompt(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    instructions: str
    uses: tuple[Literal["question", "answer", "context", "instructions"], ...]
    """`instructions`: the system messages of the conversation."""
    quotes: dict[str, str]
    """Keys of quotations, with the quoted text; for a list the first is the item's own."""
    counts: Counts | None = None
    result: Any = "integer"
    good: bool | None = None
    score_range: tuple[int, int] = RELEVANCE_RANGE

    @property
    def scale(self) -> Scale:
        return read_scale(self.result, self.score_range, good=self.good)

    @property
    def schema_of_reply(self) -> ResponseSchema:
        text, optional = {"type": "string"}, {"type": ["string", "null"]}
        name = f"{self.name}_evidence"
        if self.counts is not None:
            own = {"name": text} if self.counts.every else {}
            spans = {
                key: optional if self.counts.every or place else text for place, key in enumerate(self.quotes)
            }
            holds = {self.counts.holds: {"type": "boolean"}}
            return object_schema(
                name, **{self.counts.list: array_of(**own, **spans, justification=text, **holds)}
            )
        score: dict[str, Any] = {"type": "integer"}
        if self.scale.numbers:
            labels = {"type": "string", "enum": list(self.scale.numbers)}
            score = {"type": "boolean"} if self.scale.kind == "boolean" else labels
        return object_schema(name, **dict.fromkeys(self.quotes, optional), justification=text, score=score)


@cache
def library_prompt(name: str) -> LibraryPrompt:
    front, instructions = split_front_matter(load_prompt(f"library/{name}"))
    given = yaml.safe_load(front or "")
    return LibraryPrompt(name=name, instructions=instructions.strip() + "\n", **given)


class LibraryMetric(BuiltInMetric):
    def __init__(self, name: str) -> None:
        prompt = self.prompt = library_prompt(name)
        super().__init__(
            name, prompt.scale, prompt.schema_of_reply, "library-1", instructions=prompt.instructions
        )

    def select(self, event: QAEvent) -> Inputs:
        inputs = Inputs.of(event, {"answer", *self.prompt.uses})
        if "instructions" not in self.prompt.uses:
            return inputs
        told = tuple(turn for turn in event.messages or () if turn.role in {"system", "developer"})
        return replace(inputs, messages=told or None)

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        context = {name: text for name, text in (task.context or {}).items() if not is_blank(text)}
        texts = {
            "question": task.question,
            "answer": task.answer,
            "context": render_context(context) if context else "",
            "instructions": "\n\n".join(turn.content for turn in task.messages or ()),
        }
        sections: dict[str, str] = {name: texts[name] for name in self.prompt.uses}
        if any(is_blank(text) for text in sections.values()):
            return UnscoredOutcome("missing_input")
        return self.request(sections)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        if self.prompt.counts is not None:
            return _Count(self.prompt, self.prompt.counts, Inputs.of(task)).outcome(reply)
        verdict = extract_verdict(reply)
        justification = verdict.get("justification")
        if not isinstance(justification, str):
            raise InvalidVerdictError("justification must be a string")
        value = self.score_of(verdict["score"])
        QuoteCheck(self.prompt.quotes, Inputs.of(task)).check(verdict)
        evidence = {key: verdict.get(key) for key in self.prompt.quotes}
        return self.scale.outcome(value, {"score": value, "justification": justification}, evidence=evidence)


class _Count:
    def __init__(self, prompt: LibraryPrompt, counts: Counts, inputs: Inputs) -> None:
        self._counts = counts
        self._quotes = QuoteCheck(prompt.quotes, inputs)
        self._context = inputs.context or {}
        self._findings = Findings()
        self._texts = prompt.quotes
        self._own, *self._support_keys = ["name", *prompt.quotes] if counts.every else prompt.quotes

    def outcome(self, reply: str) -> Outcome:
        counts, findings = self._counts, self._findings
        items = self._distinct(
            [
                checked
                for number, item in enumerate(self._listed(reply))
                if (checked := self._checked(f"{counts.list}[{number}]", item)) is not None
            ]
        )
        if counts.every:
            items += self._omitted({item["name"] for item in items})
        evidence = {counts.list: items}
        if not items:
            return findings.no_claims(evidence)
        upheld = sum(item[counts.holds] for item in items)
        score = relevance_cap(upheld=upheld, total=len(items))
        justification = f"{upheld} of {len(items)} {counts.list} {counts.holds}."
        return findings.scored({"score": score, "justification": justification}, evidence)

    def _listed(self, reply: str) -> list[Item]:
        counts = self._counts
        listed = extract_object(reply, key=counts.list)[counts.list]
        if not isinstance(listed, list) or len(listed) > MAX_ITEMS:
            raise InvalidVerdictError(f"{counts.list} must be a list of at most {MAX_ITEMS} items")
        for number, item in enumerate(listed):
            if not isinstance(item, dict) or not isinstance(item.get(counts.holds), bool):
                raise InvalidVerdictError(f"{counts.list}[{number}].{counts.holds} must be true or false")
        return listed

    def _checked(self, where: str, item: Item) -> Item | None:
        """None if it names nothing that exists."""
        counts, findings = self._counts, self._findings
        own, quotes = item.get(self._own), self._quotes
        if counts.every:
            if not isinstance(own, str) or own not in self._context:
                problem = f"{where}: {quoted(str(own))} is not a text of the context"
                findings.correct("span_not_in_page", problem)
                return None
            quotes = QuoteCheck(self._texts, Inputs("", "", context={own: self._context[own]}))
        elif not quotes.has(self._own, own):
            findings.not_found(f"{where}.{self._own}", own, f"the {self._texts[self._own]}")
            findings.correct("span_not_in_answer", f"{where}: {quoted(str(own))} is not in the text")
            return None
        if not item[counts.holds] and not counts.optional:
            return item
        for key in self._support_keys:
            span = item.get(key)
            if span is None and counts.optional:
                continue
            if not quotes.has(key, span):
                findings.not_found(f"{where}.{key}", span, f"the {self._texts[key]}")
                problem = f"{where}: {quoted(str(span))} is not in the text, so it does not count"
                findings.correct("span_not_in_page", problem)
                # An invented quotation proves neither that a rule is followed nor that it is broken.
                return {**item, counts.holds: False} if item[counts.holds] else None
            said, told = passage(str(own)), passage(str(span))
            names = "the answer", "the context"
            if counts.compare and findings.contradict(where, (said, said), (told, told), names=names):
                return {**item, counts.holds: False}
        return item

    def _distinct(self, items: Sequence[Item]) -> list[Item]:
        kept: dict[str, Item] = {}
        for item in items:
            own = str(item[self._own])
            key = own if self._counts.every else normalise(own)
            earlier = kept.get(key)
            if earlier is not None:
                self._findings.correct("duplicate_item", f"{quoted(key)} is listed already")
            if earlier is None or (earlier[self._counts.holds] and not item[self._counts.holds]):
                kept[key] = item
        return list(kept.values())

    def _omitted(self, listed: set[str]) -> list[Item]:
        holds = self._counts.holds
        missing = [name for name, text in self._context.items() if name not in listed and not is_blank(text)]
        for name in missing:
            self._findings.correct(
                "text_not_listed", f"the judge left out {quoted(name)}; it does not count as {holds}"
            )
        return [{"name": name, holds: False, "added": True} for name in missing]
