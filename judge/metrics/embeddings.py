"""Semantic similarity to the reference: the cosine of two embeddings."""

from __future__ import annotations

import math

import orjson

from judge.chat import ChatMessage, ChatRequest
from judge.errors import EventError
from judge.metric import Inputs, Mode, Outcome, UnscoredOutcome
from judge.metrics.base import WithoutPrompt
from judge.metrics.code.scale import Scale
from judge.text.normal import is_blank
from schemas import JudgeTask, QAEvent


class EmbeddingSimilarity(WithoutPrompt):
    """Cosine of the embeddings of answer and reference, from 0 to 1.

    Use it if an answer may state the reference in other words. A negative cosine counts as 0. One call to
    `/embeddings` sends both texts. The level of a good score depends on the model: for unrelated texts many
    models give 0.2 and more.

    Args:
        name: The metric's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._scale = Scale((0.0, 1.0))

    @property
    def score_range(self) -> tuple[float, float]:
        """From 0 to 1."""
        return self._scale.score_range

    @property
    def mode(self) -> Mode:
        """Evidence: the endpoint returns vectors, code compares them."""
        return "evidence"

    @property
    def scoring_version(self) -> str:
        """Version of its rules."""
        return "embedding-cosine-1"

    def select(self, event: QAEvent) -> Inputs:
        """Return answer and reference."""
        return Inputs.of(event, ("answer", "reference"))

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Request the embeddings of both; unscored if one is missing."""
        if is_blank(task.reference) or is_blank(task.answer):
            return UnscoredOutcome("missing_input")
        texts = (task.answer, task.reference or "")
        messages = tuple(ChatMessage("user", text) for text in texts)
        return ChatRequest(messages, max_output_tokens=0, embeds=True)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:  # noqa: ARG002 - the protocol's
        """Return the cosine as the score.

        Raises:
            EventError: `invalid_verdict`: the reply has none. There is no repair turn.
        """
        try:
            found = orjson.loads(reply)
            cosine, dimensions = float(found["cosine"]), int(found["dimensions"])
        except (ValueError, TypeError, KeyError):
            cosine, dimensions = math.nan, 0
        if not math.isfinite(cosine):
            raise EventError("invalid_verdict", "the endpoint gave no vectors; name an embedding model")
        number = min(max(cosine, 0.0), 1.0)
        reason = f"cosine {cosine:.4f} of two vectors of {dimensions} numbers"
        return self._scale.outcome(number, reason=reason, evidence={"cosine": cosine})
