"""A metric by which a judge rates the courtesy of an answer, and one in code."""

from __future__ import annotations

from judge.chat import ChatRequest
from judge.metric import Outcome, UnscoredOutcome
from judge.metrics.base import BaseMetric, Scale, outcome_on
from judge.metrics.prompting import built_in_hash, built_in_messages
from judge.metrics.replies import extract_verdict
from schemas import JudgeTask

INSTRUCTIONS = (
    'Rate how polite the answer is, from 1 (rude) to 5. Reply with {"score": ..., "justification": ...}.'
)


class Courtesy(BaseMetric):
    """From 1, rude, to 5; an answer that asks back is unscored."""

    def __init__(self, name: str) -> None:
        super().__init__(
            name=name,
            mode="evidence",
            scale=Scale((1, 5)),
            scoring_version="acme-courtesy-1",
            prompt_hash=built_in_hash(INSTRUCTIONS),
        )

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        if task.answer.rstrip().endswith("?"):
            return UnscoredOutcome("no_claims")
        return ChatRequest(
            built_in_messages(INSTRUCTIONS, {"question": task.question, "answer": task.answer})
        )

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:  # noqa: ARG002 - the interface's
        verdict = extract_verdict(reply)
        return self.scale.outcome(self.score_of(verdict["score"]), verdict)


class Brevity(BaseMetric):
    """1 for an answer of one word, close to 0 for a long one."""

    asks_judge = False

    def __init__(self, name: str) -> None:
        super().__init__(
            name=name, mode="code", scale=Scale((0, 1), "number"), scoring_version="acme-brevity-1"
        )

    def prepare(self, task: JudgeTask) -> Outcome:
        words = len(task.answer.split())
        return outcome_on(self.scale, 1 / words, f"{words} words")
