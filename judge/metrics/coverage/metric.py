"""Coverage: how much of a reference an answer covers, 0 to 5."""

from __future__ import annotations

from collections.abc import Sequence

from judge.chat import ChatRequest
from judge.metric import Inputs, Outcome, UnscoredOutcome
from judge.metrics.base import BuiltInMetric
from judge.metrics.coverage.evidence import verify_coverage
from judge.metrics.coverage.items import CoverageReply
from judge.metrics.coverage.parts import merge_replies, split_reference
from judge.metrics.coverage.verbatim import own_verdict, scored
from judge.metrics.replies.response_schemas import COVERAGE_SCHEMA
from judge.metrics.replies.structured import read_evidence
from judge.metrics.scoring import COVERAGE_RANGE, FORCED_VERDICT, coverage_score
from judge.text.normal import is_blank
from schemas import JudgeTask, QAEvent


class Coverage(BuiltInMetric):
    """The metric `coverage`.

    In evidence mode the judge lists facts, conclusions and terms of the reference with their spans; code
    verifies and counts them. In verbatim mode the judge counts and scores; code lowers counts that the words
    of the texts rule out, and recomputes the score.

    Args:
        mode: The mode.
        pack: Prompts that replace the built-in ones; the mode is then verbatim.
        verification: How suspicions are handled.
    """

    NAME = "coverage"
    RANGE = COVERAGE_RANGE
    _EVIDENCE = COVERAGE_SCHEMA

    @property
    def scoring_version(self) -> str:
        """Version of the rules in this folder, `judge.text` and `scoring`, with the verification mode."""
        return f"coverage-5, {self._verification}"

    def select(self, event: QAEvent) -> Inputs:
        """Return question, answer and reference."""
        return Inputs(question=event.question, answer=event.answer, reference=event.reference)

    def parts(self, task: JudgeTask, *, halve: bool = False) -> tuple[JudgeTask, ...]:
        """Split a long reference into tasks; not in verbatim mode."""
        if self._mode == "verbatim":
            return (task,)
        texts = split_reference(task.reference or "", parts=2 if halve else None)
        if len(texts) == 1:
            return (task,)
        return tuple(task.model_copy(update={"reference": text}) for text in texts)

    def merged(self, replies: Sequence[str]) -> str:
        """Merge the items of the parts."""
        return merge_replies(replies)

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the request; unscored if a text is missing or blank."""
        if is_blank(task.question) or is_blank(task.answer) or is_blank(task.reference):
            return UnscoredOutcome("missing_input", verdict=dict(FORCED_VERDICT))
        reference = task.reference or ""
        if self._pack is not None:
            inputs = Inputs(question=task.question, answer=task.answer, reference=reference)
            return ChatRequest(self._pack.render(inputs), response_schema=self.response_schema)
        sections = {"question": task.question, "reference": reference, "answer": task.answer}
        return self._request(sections)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Turn the judge's reply into a verdict.

        Raises:
            InvalidVerdictError: The reply is invalid; the detail says what to repair.
        """
        if self._mode == "verbatim":
            if self._pack is not None:
                self._pack.check(reply)
            return own_verdict(task, reply, verification=self._verification)
        listed = read_evidence(CoverageReply, reply, key="facts")
        evidence = verify_coverage(
            listed,
            reference=task.reference or "",
            answer=task.answer,
            question=task.question,
            verification=self._verification,
        )
        counts = {
            name: (sum(item.matched for item in items), len(items))
            for name, items in (
                ("facts", evidence.facts),
                ("conclusions", evidence.conclusions),
                ("terms", evidence.terms),
            )
        }
        score = coverage_score(**counts, organization=evidence.similar)
        return scored(score, evidence.as_json(), evidence, evidence.objection)
