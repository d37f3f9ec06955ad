"""A user-defined metric: a prompt pack and the judge's own score."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Mode, Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.base import WholeTask
from judge.metrics.packs.inputs import is_given, select
from judge.metrics.packs.pack import PromptPack
from judge.metrics.packs.pairs import PAIR, as_meant, as_shown, is_swapped
from judge.metrics.packs.quotes import MAX_NAMED, QuoteCheck
from judge.metrics.prompting import schema_hash
from judge.metrics.replies.reply import extract_verdict
from judge.metrics.replies.structured import read_score
from judge.metrics.scoring import is_forced
from schemas import JudgeTask, QAEvent

PAIRWISE = "pack-3, pairwise"
"""The scoring version of packs that compare two answers."""
MAX_VERDICT_BYTES = 64 * 1024
"""Limit of a verdict, which is published unchanged in a Kafka record."""


class PackMetric(WholeTask):
    """A metric with a pack's prompts and the judge's own score.

    The reply must contain one JSON object whose `score` is, as the pack defines, an integer or number in the
    range or one of its values. Its quotations must be in the texts, and it must match the pack's response
    schema, if any. It is published unchanged.

    Args:
        name: The metric's name.
        pack: Its prompts.
        score_range: Lowest and highest score, both included.
    """

    def __init__(self, name: str, pack: PromptPack, *, score_range: tuple[float, float]) -> None:
        self._name = name
        self._pack = pack
        self._choice = pack.choice
        self._score_range = score_range if pack.choice is None else pack.choice.score_range

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._name

    @property
    def score_range(self) -> tuple[float, float]:
        """Lowest and highest score, both included."""
        return self._score_range

    @property
    def labels(self) -> Mapping[str, int]:
        """The number of each label, or of `true` and `false`; empty if scores are numbers."""
        return {} if self._choice is None else self._choice.by_label

    @property
    def mode(self) -> Mode:
        """Always verbatim."""
        return "verbatim"

    @property
    def prompt_hash(self) -> str:
        """Hash of the pack's templates."""
        return self._pack.hash

    @property
    def schema_hash(self) -> str:
        """Hash of the pack's response schema, or the word "none"."""
        return schema_hash(self._pack.response_schema)

    @property
    def scoring_version(self) -> str:
        """Version of the rules that read the score."""
        if self._pack.is_pair:
            return PAIRWISE
        if self._choice is not None:
            return f"pack-2, {json.dumps(dict(self._choice.numbers))}"
        return "pack-2, number" if self._pack.is_number else "pack-2"

    def select(self, event: QAEvent) -> Inputs:
        """Return the texts that the templates use."""
        return select(event, self._pack.uses)

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Fill in the templates; unscored if a used text is missing or blank."""
        inputs = self._shown(task)
        if not all(is_given(inputs, name) for name in self._pack.uses):
            return UnscoredOutcome(reason="missing_input")
        if self._pack.is_pair and inputs.answer.split() == (inputs.other_answer or "").split():
            verdict = {"score": "tie", "justification": "Both answers are the same text."}
            return ScoredOutcome(verdict, PAIR.number("tie"), kind=PAIR.kind, value="tie")
        return ChatRequest(messages=self._pack.render(inputs), response_schema=self._pack.response_schema)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Return the judge's verdict.

        Raises:
            InvalidVerdictError: Its score is not on the pack's scale, it violates the schema, or it is too
                large.
        """
        verdict = extract_verdict(reply) if self._choice else self._numbered(reply)
        if self._pack.is_pair:
            verdict = as_meant(verdict, swapped=is_swapped(task.event_id))
        score = self._choice.number(verdict["score"]) if self._choice else verdict["score"]
        self._pack.check(reply)
        if is_forced(score, verdict.get("rationale")):
            return UnscoredOutcome(reason="missing_input", verdict=verdict)
        self._check_quotes(task, verdict)
        size = len(orjson.dumps(verdict))
        if size > MAX_VERDICT_BYTES:
            raise InvalidVerdictError(
                f"the verdict must be at most {MAX_VERDICT_BYTES} bytes, got {size}; shorten it"
            )
        if self._choice is None:
            if self._pack.is_number:
                return ScoredOutcome.of_number(score, verdict)
            return ScoredOutcome(verdict=verdict, score=score)
        return ScoredOutcome(verdict=verdict, score=score, kind=self._choice.kind, value=verdict["score"])

    def _shown(self, task: JudgeTask) -> Inputs:
        """Return the texts as shown to the judge; the answers of a pair may be swapped."""
        inputs = Inputs.of(task)
        return as_shown(inputs, swapped=is_swapped(task.event_id)) if self._pack.is_pair else inputs

    def _numbered(self, reply: str) -> dict[str, Any]:
        return read_score(reply, self._score_range, is_number=self._pack.is_number)

    def _check_quotes(self, task: JudgeTask, verdict: Mapping[str, Any]) -> None:
        """Check that the judge's quotations are in the texts.

        Raises:
            InvalidVerdictError: A quotation is not in its text, or a required one is missing.
        """
        if not self._pack.quotes:
            return
        found = QuoteCheck(self._pack.quotes, self._shown(task))
        missing = found.not_found(verdict)
        if missing:
            more = f"; and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
            raise InvalidVerdictError(
                f"{'; '.join(missing[:MAX_NAMED])}{more}: copy each character by character, in one "
                "piece, or change the verdict"
            )
        if verdict["score"] is True and not found.count(verdict):
            raise InvalidVerdictError(
                f"true needs a quotation ({', '.join(self._pack.quotes)}): copy the words, or say false"
            )
