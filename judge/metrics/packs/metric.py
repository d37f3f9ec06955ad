"""A user-defined metric: a prompt pack and the judge's own score. A pair's answers have a hashed order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Metric, Outcome, ScoredOutcome, UnscoredOutcome, unsampled_task
from judge.metrics.base import BaseMetric
from judge.metrics.packs.options import PAIR, SAID, Example
from judge.metrics.packs.pack import PromptPack
from judge.metrics.packs.templates import TextName, is_given, select, texts_of
from judge.metrics.prompting import schema_hash
from judge.metrics.replies import extract_verdict
from judge.metrics.scoring import is_forced
from judge.text.normal import quoted
from judge.text.printable import printable
from judge.text.quotations import Quotable
from schemas import JudgeTask, QAEvent

MAX_QUOTATIONS = 300
"""Limit of checked quotations per verdict; further ones count as not found."""
MAX_NAMED = 5
PAIRWISE = "pack-3, pairwise"
MAX_VERDICT_BYTES = 64 * 1024
"""Limit of a verdict, which is published unchanged in a Kafka record."""
_MEANINGS = {"first": ("answer", "other"), "second": ("other", "answer")}
"""The published winner by the judge's word, unswapped and swapped."""


class QuoteCheck:
    """Searches quotations in an event's texts; `quotes`: keys of the verdict, with the quoted text."""

    def __init__(self, quotes: Mapping[str, TextName], inputs: Inputs) -> None:
        self._quotes = quotes
        self._inputs = inputs
        self._quotables: dict[TextName, list[Quotable]] = {}

    def check(self, verdict: Mapping[str, Any]) -> None:
        given = [(key, value) for key, value in _quotations(verdict, self._quotes) if value is not None]
        missing = [
            f"{key} {quoted(str(value))} is not in the {self._quotes[key]}"
            for number, (key, value) in enumerate(given)
            if number >= MAX_QUOTATIONS or not self.has(key, value)
        ]
        if missing:
            more = f"; and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
            raise InvalidVerdictError(
                f"{'; '.join(missing[:MAX_NAMED])}{more}: copy each character by character, in one "
                "piece, or change the verdict"
            )
        if self._quotes and verdict["score"] is True and not given:
            raise InvalidVerdictError(
                f"true needs a quotation ({', '.join(self._quotes)}): copy the words, or say false"
            )

    def has(self, key: str, value: Any) -> bool:
        text = self._quotes[key]
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


class PackMetric(BaseMetric):
    """A metric with a pack's prompts and the judge's own score; `score_range` if the result has none."""

    def __init__(self, name: str, pack: PromptPack, *, score_range: tuple[float, float]) -> None:
        self.pack = pack
        scale = pack.options.scale(score_range)
        super().__init__(
            name=name,
            mode="verbatim",
            scale=scale,
            scoring_version=_version(pack, scale.by_json),
            prompt_hash=pack.hash,
            schema_hash=schema_hash(pack.options.response_schema),
        )

    def select(self, event: QAEvent) -> Inputs:
        return select(event, self.pack.uses)

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        inputs = self._shown(task)
        if not all(is_given(inputs, name) for name in self.pack.uses):
            return UnscoredOutcome("missing_input")
        if self.pack.options.is_pair and inputs.answer.split() == (inputs.other_answer or "").split():
            verdict = {"score": "tie", "justification": "Both answers are the same text."}
            return PAIR.outcome("tie", verdict)
        return ChatRequest(self.pack.render(inputs), self.pack.options.response_schema)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        verdict = extract_verdict(reply)
        value: Any = self.score_of(verdict["score"], SAID if self.pack.options.is_pair else None)
        self.pack.checked(verdict)
        if self.pack.options.is_pair:
            swapped = is_swapped(task.event_id)
            value = _MEANINGS[value][swapped] if value in _MEANINGS else value
            verdict["first"] = "other" if swapped else "answer"
        verdict["score"] = value
        outcome = self.scale.outcome(value, verdict)
        if is_forced(outcome.score, verdict.get("rationale")):
            return UnscoredOutcome("missing_input", verdict=verdict)
        QuoteCheck(self.pack.options.quotes, self._shown(task)).check(verdict)
        size = len(orjson.dumps(verdict))
        if size > MAX_VERDICT_BYTES:
            raise InvalidVerdictError(
                f"the verdict must be at most {MAX_VERDICT_BYTES} bytes, got {size}; shorten it"
            )
        return outcome

    def _shown(self, task: JudgeTask) -> Inputs:
        """Return the texts as shown to the judge; the answers of a pair may be swapped."""
        inputs = Inputs.of(task)
        if not self.pack.options.is_pair or not is_swapped(task.event_id):
            return inputs
        return replace(inputs, answer=inputs.other_answer or "", other_answer=inputs.answer)


def is_swapped(event_id: str) -> bool:
    """Return whether a pair's answers are swapped: for half of all events, so that position bias cancels."""
    return bool(hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).digest()[0] & 1)


def _version(pack: PromptPack, numbers: Mapping[str, int]) -> str:
    if pack.options.is_pair:
        return PAIRWISE
    if numbers:
        return f"pack-2, {json.dumps(dict(numbers))}"
    return "pack-2, number" if pack.options.result == "number" else "pack-2"


_DETAIL_CHARS: Final = 160
_NEVER: Final = datetime.fromtimestamp(0, UTC)


def example_warnings(metric: Metric, pack: PromptPack) -> Iterator[str]:
    """Yield the examples whose published score would differ, as a judge that follows them is corrected."""
    for number, example in enumerate(pack.options.examples, 1):
        trouble = _trouble(metric, example)
        if trouble is not None:
            yield f"example {number} {trouble}; correct its texts or its reply"


def _trouble(metric: Metric, example: Example) -> str | None:
    texts = {name: getattr(example.inputs, name) for name in ("question", "answer", "reference", "context")}
    event = QAEvent(event_id="judgestream-example", **texts)
    task = unsampled_task(event, metric, source=event.event_id, now=_NEVER)
    try:
        outcome = metric.interpret(task, example.reply)
        objection = outcome.objection if isinstance(outcome, ScoredOutcome) else None
    except InvalidVerdictError as error:
        objection = error.detail
    if objection is not None:
        return f"has a reply that the judge would have to repair: {printable(objection, _DETAIL_CHARS)}"
    if not isinstance(outcome, ScoredOutcome):
        return None
    said: Any = extract_verdict(example.reply)["score"]
    published = outcome.score if outcome.value is None else outcome.value
    with suppress(TypeError, ValueError):
        if said == published or float(said) == published:  # 5.0 and "5" are 5
            return None
    reasons = "; ".join(printable(one.detail, _DETAIL_CHARS) for one in outcome.corrections)
    return f"says {said!r} and would be published as {published!r}: {reasons}"
