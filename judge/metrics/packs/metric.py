"""A metric of a user's own: a prompt pack, and a score that the judge gives itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Mode, Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.packs.pack import PromptPack
from judge.metrics.prompting import schema_hash
from judge.metrics.scoring import is_forced
from judge.metrics.structured import read_score
from judge.text.index import is_blank
from schemas import JudgeTask, QAEvent

MAX_VERDICT_BYTES = 64 * 1024
"""A verdict goes into a Kafka record as it is."""


class PackMetric:
    """Asks with a pack's prompts and takes the judge's own score.

    The reply must hold one JSON object with an integer `score` in the range, which keeps to the pack's response schema where
    there is one; it is published as it is.

    Args:
        name: The metric's name.
        pack: Its prompts.
        score_range: Lowest and highest score, both included.
    """

    def __init__(self, name: str, pack: PromptPack, *, score_range: tuple[int, int]) -> None:
        self._name = name
        self._pack = pack
        self._score_range = score_range

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._name

    @property
    def score_range(self) -> tuple[int, int]:
        """Lowest and highest score, both included."""
        return self._score_range

    @property
    def mode(self) -> Mode:
        """Always the judge's own verdict."""
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
        """Version of how the score is read."""
        return "pack-2"

    def select(self, event: QAEvent) -> Inputs:
        """Take the texts that the templates use; the others stay behind."""
        uses = self._pack.uses
        return Inputs(
            question=event.question if "question" in uses else "",
            answer=event.answer,
            reference=event.reference if "reference" in uses else None,
            context=event.context if "context" in uses else None,
        )

    def parts(self, task: JudgeTask, *, halve: bool = False) -> tuple[JudgeTask, ...]:  # noqa: ARG002 - the protocol's
        """The task as it is."""
        return (task,)

    def merged(self, replies: Sequence[str]) -> str:
        """The one reply."""
        return replies[0]

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Fill in the templates; where a text they use is missing or blank there is nothing to judge."""
        given: Mapping[str, bool] = {
            "question": not is_blank(task.question),
            "answer": not is_blank(task.answer),
            "reference": not is_blank(task.reference),
            "context": any(not is_blank(text) for text in (task.context or {}).values()),
        }
        if not all(given[name] for name in self._pack.uses):
            return UnscoredOutcome(reason="missing_input")
        inputs = Inputs(task.question, task.answer, task.reference, task.context)
        return ChatRequest(messages=self._pack.render(inputs), response_schema=self._pack.response_schema)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:  # noqa: ARG002 - the protocol's; the score is the judge's own
        """Take the judge's verdict.

        Raises:
            InvalidVerdictError: It has no whole number in the range as its score, breaks the schema, or is too large.
        """
        low, high = self._score_range
        verdict = read_score(reply, low=low, high=high)
        self._pack.check(reply)
        if is_forced(verdict["score"], verdict.get("rationale")):
            return UnscoredOutcome(reason="missing_input", verdict=verdict)
        size = len(orjson.dumps(verdict))
        if size > MAX_VERDICT_BYTES:
            raise InvalidVerdictError(
                f"the verdict must be at most {MAX_VERDICT_BYTES} bytes, got {size}; shorten it"
            )
        return ScoredOutcome(verdict=verdict, score=verdict["score"])
