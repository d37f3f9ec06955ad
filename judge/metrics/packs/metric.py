"""A user-defined metric: a prompt pack and the judge's own score. A pair's answers have a hashed order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Outcome, UnscoredOutcome
from judge.metrics.base import BaseMetric, score_on
from judge.metrics.packs.options import PAIR, SAID
from judge.metrics.packs.pack import PromptPack
from judge.metrics.packs.texts import MAX_NAMED, QuoteCheck, is_given, select
from judge.metrics.prompting import schema_hash
from judge.metrics.replies import extract_verdict
from judge.metrics.scoring import is_forced
from schemas import JudgeTask, QAEvent

PAIRWISE = "pack-3, pairwise"
"""The scoring version of packs that compare two answers."""
MAX_VERDICT_BYTES = 64 * 1024
"""Limit of a verdict, which is published unchanged in a Kafka record."""
_MEANINGS = {"first": ("answer", "other"), "second": ("other", "answer")}
"""The published winner by the judge's word, unswapped and swapped."""


class PackMetric(BaseMetric):
    """A metric with a pack's prompts and the judge's own score.

    The reply must contain one JSON object whose `score` is on the pack's scale. Its quotations must be in the
    texts, and it must match the pack's response schema, if any. It is published unchanged.

    Args:
        name: The metric's name.
        pack: Its prompts.
        score_range: Lowest and highest score, both included, if they do not follow from the pack's result.
    """

    def __init__(self, name: str, pack: PromptPack, *, score_range: tuple[float, float]) -> None:
        self.pack = pack
        scale = pack.options.scale(score_range)
        super().__init__(
            name=name,
            mode="verbatim",
            scale=scale,
            scoring_version=_version(pack, scale.by_json),
            prompt_hash=pack.hash,
            schema_hash=schema_hash(pack.response_schema),
        )

    def select(self, event: QAEvent) -> Inputs:
        """Return the texts that the templates use."""
        return select(event, self.pack.uses)

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Fill in the templates; unscored if a used text is missing or blank."""
        inputs = self._shown(task)
        if not all(is_given(inputs, name) for name in self.pack.uses):
            return UnscoredOutcome("missing_input")
        if self.pack.options.is_pair and inputs.answer.split() == (inputs.other_answer or "").split():
            verdict = {"score": "tie", "justification": "Both answers are the same text."}
            return PAIR.outcome("tie", verdict)
        return ChatRequest(self.pack.render(inputs), self.pack.response_schema)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Return the judge's verdict.

        Raises:
            InvalidVerdictError: Its score is not on the pack's scale, it violates the schema, or it is too
                large.
        """
        verdict = extract_verdict(reply)
        if self.pack.options.is_pair:
            said = str(score_on(SAID, verdict["score"]))
            swapped = is_swapped(task.event_id)
            value: Any = _MEANINGS[said][swapped] if said in _MEANINGS else said
            self.pack.checked(verdict)
            verdict = {**verdict, "score": value, "first": "other" if swapped else "answer"}
        else:
            value = self.score_of(verdict["score"])
            self.pack.checked(verdict)
            verdict = {**verdict, "score": value}
        outcome = self.scale.outcome(value, verdict)
        if is_forced(outcome.score, verdict.get("rationale")):
            return UnscoredOutcome("missing_input", verdict=verdict)
        self._check_quotes(task, verdict)
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

    def _check_quotes(self, task: JudgeTask, verdict: Mapping[str, Any]) -> None:
        """Check that the judge's quotations are in the texts.

        Raises:
            InvalidVerdictError: A quotation is not in its text, or a required one is missing.
        """
        quotes = self.pack.options.quotes
        if not quotes:
            return
        check = QuoteCheck(quotes, self._shown(task))
        missing = check.not_found(verdict)
        if missing:
            more = f"; and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
            raise InvalidVerdictError(
                f"{'; '.join(missing[:MAX_NAMED])}{more}: copy each character by character, in one "
                "piece, or change the verdict"
            )
        if verdict["score"] is True and not check.count(verdict):
            raise InvalidVerdictError(
                f"true needs a quotation ({', '.join(quotes)}): copy the words, or say false"
            )


def is_swapped(event_id: str) -> bool:
    """Return whether a pair's answers are swapped: for half of all events, so that position bias cancels."""
    return bool(hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).digest()[0] & 1)


def _version(pack: PromptPack, numbers: Mapping[str, int]) -> str:
    """Return the version of the rules that read the score."""
    if pack.options.is_pair:
        return PAIRWISE
    if numbers:
        return f"pack-2, {json.dumps(dict(numbers))}"
    return "pack-2, number" if pack.options.result == "number" else "pack-2"
