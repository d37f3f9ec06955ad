"""Metrics of the library: fenced texts in, a verdict with verified evidence out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judge.chat import ChatRequest, ResponseSchema
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Mode, Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.base import WholeTask
from judge.metrics.findings import Findings
from judge.metrics.library.prompts import Counted, LibraryPrompt, library_prompt
from judge.metrics.packs.inputs import render_context
from judge.metrics.packs.quotes import MAX_NAMED, QuoteCheck
from judge.metrics.prompting import built_in_hash, built_in_messages, schema_hash
from judge.metrics.replies.reply import extract_object, extract_verdict
from judge.metrics.replies.structured import check_score
from judge.metrics.scoring import relevance_cap
from judge.text.contradictions import Passage, contradiction_between
from judge.text.normal import is_blank, normalise, quoted
from schemas import ChatMessage as ChatTurn
from schemas import JudgeTask, QAEvent

_TOLD = frozenset({"system", "developer"})
MAX_ITEMS = 300
"""Limit of listed items."""


class LibraryMetric(WholeTask):
    """A metric of the library, enabled by its name.

    If its prompt lists items, code verifies their quotations and counts: 5 if all are valid, 4 for more than
    3/5, 3 for at least 2/5, 2 for any, 1 for none. Else the judge decides, and its quotations must be in the
    text.

    Args:
        name: A key of `judge.metrics.library.prompts.LIBRARY`.
    """

    def __init__(self, name: str) -> None:
        self._prompt = library_prompt(name)

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._prompt.name

    @property
    def score_range(self) -> tuple[int, int]:
        """Lowest and highest score, both included."""
        return self._prompt.score_range

    @property
    def labels(self) -> Mapping[str, int]:
        """The number of each label, or of `true` and `false`; empty if scores are numbers."""
        return {} if self._prompt.choice is None else self._prompt.choice.by_label

    @property
    def mode(self) -> Mode:
        """Always evidence."""
        return "evidence"

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompt and of the fence around the event."""
        return built_in_hash(self.instructions)

    @property
    def instructions(self) -> str:
        """The constant instructions of every call."""
        return self._prompt.system

    @property
    def response_schema(self) -> ResponseSchema:
        """Schema of the reply."""
        return self._prompt.schema

    @property
    def schema_hash(self) -> str:
        """Hash of the response schema."""
        return schema_hash(self._prompt.schema)

    @property
    def scoring_version(self) -> str:
        """Version of the rules in this folder."""
        return "library-1"

    def select(self, event: QAEvent) -> Inputs:
        """Return the texts that the prompt uses; the answer is always included."""
        uses = self._prompt.uses
        return Inputs(
            question=event.question if "question" in uses else "",
            answer=event.answer,
            context=event.context if "context" in uses else None,
            messages=_instructions(event.messages or ()) if "instructions" in uses else None,
        )

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the request; unscored if a used text is missing or blank."""
        context = {name: text for name, text in (task.context or {}).items() if not is_blank(text)}
        texts = {
            "question": task.question,
            "answer": task.answer,
            "context": render_context(context) if context else "",
            "instructions": "\n\n".join(one.content for one in task.messages or ()),
        }
        sections: dict[str, str] = {name: texts[name] for name in self._prompt.uses}
        if any(is_blank(text) for text in sections.values()):
            return UnscoredOutcome("missing_input")
        messages = built_in_messages(self.instructions, sections)
        return ChatRequest(messages, response_schema=self.response_schema)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Turn the judge's reply into a verdict.

        Raises:
            InvalidVerdictError: The reply is invalid; the detail says what to repair.
        """
        inputs = Inputs.of(task)
        if self._prompt.counted is not None:
            return _counted(self._prompt, self._prompt.counted, inputs, reply)
        return _decided(self._prompt, inputs, reply)


def _instructions(messages: Sequence[ChatTurn]) -> tuple[ChatTurn, ...] | None:
    """Return the system messages, which instruct the answer's author."""
    return tuple(one for one in messages if one.role in _TOLD) or None


def _decided(prompt: LibraryPrompt, inputs: Inputs, reply: str) -> Outcome:
    """Return the judge's decision; its quotations must be in the text."""
    said = extract_verdict(reply)
    justification = said.get("justification")
    if not isinstance(justification, str):
        raise InvalidVerdictError("justification must be a string")
    low, high = prompt.score_range
    value = said["score"]
    score = check_score(value, low=low, high=high) if prompt.choice is None else prompt.choice.number(value)
    check = QuoteCheck(prompt.quotes, inputs)
    missing = check.not_found(said)
    if missing:
        raise InvalidVerdictError(
            f"{'; '.join(missing[:MAX_NAMED])}: copy it character by character, in one piece, or "
            "change the verdict"
        )
    if value is True and not check.count(said):
        raise InvalidVerdictError(f"true needs a quotation: give {', '.join(prompt.quotes)}, or say false")
    evidence = {key: said.get(key) for key in prompt.quotes}
    if prompt.choice is None:
        return ScoredOutcome({"score": score, "justification": justification}, score, evidence=evidence)
    return ScoredOutcome(
        {"score": value, "justification": justification},
        score,
        evidence=evidence,
        kind=prompt.choice.kind,
        value=value,
    )


def _counted(prompt: LibraryPrompt, counted: Counted, inputs: Inputs, reply: str) -> Outcome:
    """Return the outcome for the share of valid items."""
    findings = Findings("marks")
    items = [
        item
        for number, given in enumerate(_items(counted, extract_object(reply, key=counted.list)))
        if (item := _checked(prompt, counted, inputs, findings, f"{counted.list}[{number}]", given))
        is not None
    ]
    items = _once(prompt, counted, items, findings)
    if counted.every:
        items += _left_out(counted, inputs, items, findings)
    evidence = {counted.list: items}
    if not items:
        return UnscoredOutcome("no_claims", evidence=evidence, corrections=findings.corrections)
    upheld = sum(item[counted.holds] for item in items)
    score = relevance_cap(upheld=upheld, total=len(items))
    return ScoredOutcome(
        {"score": score, "justification": f"{upheld} of {len(items)} {counted.list} {counted.holds}."},
        score,
        evidence=evidence,
        corrections=findings.corrections,
        objection=findings.objection,
    )


def _items(counted: Counted, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = found[counted.list]
    if not isinstance(listed, list) or len(listed) > MAX_ITEMS:
        raise InvalidVerdictError(f"{counted.list} must be a list of at most {MAX_ITEMS} items")
    for number, item in enumerate(listed):
        if not isinstance(item, dict) or not isinstance(item.get(counted.holds), bool):
            raise InvalidVerdictError(f"{counted.list}[{number}].{counted.holds} must be true or false")
    return listed


def _checked(
    prompt: LibraryPrompt,
    counted: Counted,
    inputs: Inputs,
    findings: Findings,
    where: str,
    given: dict[str, Any],
) -> dict[str, Any] | None:
    """Return the verified item; None if its own quotation is not in its text."""
    keys = list(prompt.quotes)
    if counted.every:
        name = given.get("name")
        if not isinstance(name, str) or name not in (inputs.context or {}):
            findings.correct("span_not_in_page", f"{where}: {quoted(str(name))} is not a text of the context")
            return None
        inputs = Inputs("", "", context={name: (inputs.context or {})[name]})
    else:
        own = keys.pop(0)
        if given.get(own) is None or QuoteCheck({own: prompt.quotes[own]}, inputs).not_found(given):
            findings.not_found(f"{where}.{own}", given.get(own), f"the {prompt.quotes[own]}")
            findings.correct(
                "span_not_in_answer", f"{where}: {quoted(str(given.get(own)))} is not in the text"
            )
            return None
    if not given[counted.holds] and not counted.optional:
        return given
    for key in keys:
        span = given.get(key)
        if span is None and counted.optional:
            continue
        if span is None or QuoteCheck({key: prompt.quotes[key]}, inputs).not_found(given):
            findings.not_found(f"{where}.{key}", span, f"the {prompt.quotes[key]}")
            findings.correct(
                "span_not_in_page", f"{where}: {quoted(str(span))} is not in the text, so it does not count"
            )
            # An invented quotation proves neither that a rule is followed nor that it is broken.
            return {**given, counted.holds: False} if given[counted.holds] else None
        contradiction = None
        if counted.compare:
            own_span = str(given[next(iter(prompt.quotes))])
            contradiction = contradiction_between(Passage(own_span, own_span), Passage(span, span))
        if contradiction is not None:
            findings.correct(
                contradiction.kind,
                (
                    f"{where}: the answer says {quoted(contradiction.source)}, the context "
                    f"{quoted(contradiction.stated)}"
                ),
            )
            return {**given, counted.holds: False}
    return given


def _once(
    prompt: LibraryPrompt, counted: Counted, items: Sequence[dict[str, Any]], findings: Findings
) -> list[dict[str, Any]]:
    """Return the distinct items; one listed twice with different results is invalid."""
    kept: dict[str, dict[str, Any]] = {}
    for item in items:
        key = str(item["name"]) if counted.every else normalise(str(item[next(iter(prompt.quotes))]))
        earlier = kept.get(key)
        if earlier is not None:
            findings.correct("duplicate_item", f"{quoted(key)} is listed already")
        if earlier is None or (earlier[counted.holds] and not item[counted.holds]):
            kept[key] = item
    return list(kept.values())


def _left_out(
    counted: Counted, inputs: Inputs, items: Sequence[Mapping[str, Any]], findings: Findings
) -> list[dict[str, Any]]:
    """Return the texts of the context that the judge did not list."""
    listed = {item["name"] for item in items}
    missing = [
        name for name, text in (inputs.context or {}).items() if name not in listed and not is_blank(text)
    ]
    for name in missing:
        findings.correct(
            "text_not_listed", f"the judge left out {quoted(name)}; it does not count as {counted.holds}"
        )
    return [{"name": name, counted.holds: False, "added": True} for name in missing]
