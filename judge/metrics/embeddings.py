"""Similarity to the reference by meaning: the cosine of two vectors that an embedding model gives."""

from __future__ import annotations

import math

import orjson

from judge.chat import ChatMessage, ChatRequest
from judge.errors import EventError
from judge.metric import Inputs, Mode, Outcome, UnscoredOutcome
from judge.metrics.base import WithoutPrompt
from judge.metrics.code.scale import Scale
from judge.text.index import is_blank
from schemas import JudgeTask, QAEvent


class EmbeddingSimilarity(WithoutPrompt):
    """How far the answer means what the reference means, from 0 to 1: the cosine of their vectors.

    A cosine below 0 counts as 0. One call to the endpoint's `/embeddings` has both texts. Which number is a
    good one depends on the model: many give two unrelated texts 0.2 and more.

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
        """The endpoint gives vectors, code compares them."""
        return "evidence"

    @property
    def scoring_version(self) -> str:
        """Version of its rules."""
        return "embedding-cosine-1"

    def select(self, event: QAEvent) -> Inputs:
        """Take answer and reference."""
        return Inputs.of(event, ("answer", "reference"))

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Ask for the vectors of both; without one of them there is nothing to compare."""
        if is_blank(task.reference) or is_blank(task.answer):
            return UnscoredOutcome("missing_input")
        texts = (task.answer, task.reference or "")
        messages = tuple(ChatMessage("user", text) for text in texts)
        return ChatRequest(messages, max_output_tokens=0, embeds=True)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:  # noqa: ARG002 - the protocol's
        """Take the cosine that the endpoint's vectors have.

        Raises:
            EventError: `invalid_verdict`: there is none. It is not asked again: vectors cannot be repaired.
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
