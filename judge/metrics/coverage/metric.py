"""Coverage: how much of a known good answer an answer covers, 0 to 5."""

from __future__ import annotations

import re
from typing import Any

from judge.chat import ChatRequest, ResponseSchema
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Mode, Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.coverage.bounds import Counts, lowered_counts, lowered_score
from judge.metrics.coverage.evidence import verify_coverage
from judge.metrics.coverage.items import CoverageReply
from judge.metrics.prompting import PromptSource, built_in_hash, built_in_messages, schema_hash
from judge.metrics.response_schemas import COVERAGE_SCHEMA
from judge.metrics.scoring import COVERAGE_RANGE, FORCED_VERDICT, CoverageScore, coverage_score
from judge.metrics.structured import read_evidence, read_score
from judge.text.index import is_blank
from schemas import Correction, JudgeTask, QAEvent

_COUNTS = re.compile(r"\W*(?P<name>fact|conclusion|term)\w*[^\d\n]{0,40}(?P<matched>\d{1,6})\s*(?:out\s+of|of|/)\s*(?P<total>\d{1,6})\b",
    re.IGNORECASE)  # fmt: skip
_ORGANIZATION = re.compile(r"\W*organi[sz]ation\W{0,6}(?P<not>not\s+|mis|un)?-?match(?:ed)?\b", re.IGNORECASE)


class Coverage:
    """The metric `coverage`.

    In evidence mode the judge lists facts, conclusions and terms of the reference with the spans they rest on; code
    verifies them and counts. In verbatim mode the judge counts and scores by itself; code lowers counts that the words of
    the texts rule out, and recomputes the score from them.

    Args:
        mode: How the judge is asked.
        pack: Prompts that replace the built-in ones; the mode is then verbatim.
    """

    def __init__(self, *, mode: Mode = "evidence", pack: PromptSource | None = None) -> None:
        self._mode: Mode = "verbatim" if pack is not None else mode
        self._pack = pack

    @property
    def name(self) -> str:
        """`coverage`."""
        return "coverage"

    @property
    def score_range(self) -> tuple[int, int]:
        """0 to 5."""
        return COVERAGE_RANGE

    @property
    def mode(self) -> Mode:
        """How the judge is asked."""
        return self._mode

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompts, the pack's where one is used."""
        return built_in_hash(self._prompt) if self._pack is None else self._pack.hash

    @property
    def schema_hash(self) -> str:
        """Hash of the response schema, or "none"."""
        return schema_hash(self._schema)

    @property
    def scoring_version(self) -> str:
        """Version of the rules in this module, `coverage_evidence`, `coverage_overlap`, `refusals` and `scoring`."""
        return "coverage-3"

    def select(self, event: QAEvent) -> Inputs:
        """Question, answer and reference."""
        return Inputs(question=event.question, answer=event.answer, reference=event.reference)

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the request; where a text is missing or blank there is nothing to ask."""
        if is_blank(task.question) or is_blank(task.answer) or is_blank(task.reference):
            return UnscoredOutcome("missing_input", verdict=dict(FORCED_VERDICT))
        reference = task.reference or ""
        if self._pack is not None:
            inputs = Inputs(question=task.question, answer=task.answer, reference=reference)
            return ChatRequest(self._pack.render(inputs), response_schema=self._schema)
        sections = {"question": task.question, "reference": reference, "answer": task.answer}
        return ChatRequest(built_in_messages(self._prompt, sections), response_schema=self._schema)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Turn the judge's reply into a verdict.

        Raises:
            InvalidVerdictError: The reply cannot be made into one; the detail says what to mend.
        """
        if self._mode == "verbatim":
            return _own_verdict(task, reply)
        listed = read_evidence(CoverageReply, reply, key="facts")
        evidence = verify_coverage(
            listed, reference=task.reference or "", answer=task.answer, question=task.question
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
        return _scored(score, evidence.as_json(), evidence.corrections)

    @property
    def _prompt(self) -> str:
        return f"coverage.{self._mode}"

    @property
    def _schema(self) -> ResponseSchema | None:
        if self._pack is not None:
            return self._pack.response_schema
        return COVERAGE_SCHEMA if self._mode == "evidence" else None


def _own_verdict(task: JudgeTask, reply: str) -> ScoredOutcome:
    """The judge's own verdict, recomputed from its own counts where they can be read."""
    low, high = COVERAGE_RANGE
    verdict = read_score(reply, low=low, high=high)
    claimed = verdict["score"]
    lines = _lines(verdict.get("rationale"))
    evidence = {"score": claimed, "rationale": lines}
    counted = _counted(lines)
    if counted is None:
        if len(lines) != len(FORCED_VERDICT["rationale"]):
            raise InvalidVerdictError(
                "rationale must be a list of five strings: facts, conclusions, terminology and organization with their"
                f' counts, as in "Fact: 2 of 3 facts correctly matched.", and the score; got {len(lines)}'
            )
        corrections = [
            Correction(
                kind="counts_unreadable",
                detail=f"the rationale gives no counts to recompute the score {claimed} from",
            )
        ]
        score, reason = lowered_score(task, claimed)
        if reason is not None:
            corrections.append(Correction(kind="score_lowered", detail=reason))
            lines = [*lines[:-1], f"Score: {score} = lowered from {claimed}: {reason}"]
        return ScoredOutcome(
            verdict={"score": score, "rationale": lines},
            score=score,
            evidence=evidence,
            corrections=tuple(corrections),
        )
    counts, lowered = lowered_counts(task, counted)
    exact = coverage_score(
        facts=counts.facts,
        conclusions=counts.conclusions,
        terms=counts.terms,
        organization=counts.organization,
    )
    if exact.score == claimed:
        return _scored(exact, evidence, lowered)
    detail = f"the judge said {claimed}; its {'lowered' if lowered else 'own'} counts give {exact.exact_text}, rounded {exact.score}"
    return _scored(exact, evidence, (*lowered, Correction(kind="score_recomputed", detail=detail)))


def _counted(lines: list[str]) -> Counts | None:
    counts: dict[str, tuple[int, int]] = {}
    organization: bool | None = None
    for line in lines:
        found = _COUNTS.match(line)
        if found is not None:
            counts.setdefault(found["name"].lower(), (int(found["matched"]), int(found["total"])))
        structure = _ORGANIZATION.match(line)
        if structure is not None and organization is None:
            organization = structure["not"] is None
    if len(counts) < 3 or organization is None:
        return None
    if any(matched > total for matched, total in counts.values()):
        return None
    return Counts(counts["fact"], counts["conclusion"], counts["term"], organization)


def _lines(rationale: Any) -> list[str]:
    if isinstance(rationale, str):
        return [line for line in rationale.splitlines() if line.strip()]
    if isinstance(rationale, list) and all(isinstance(line, str) for line in rationale):
        return rationale
    raise InvalidVerdictError("rationale must be a list of five strings")


def _scored(score: CoverageScore, evidence: Any, corrections: tuple[Correction, ...]) -> ScoredOutcome:
    return ScoredOutcome(
        verdict=score.verdict(),
        score=score.score,
        score_exact=score.exact_text,
        evidence=evidence,
        corrections=corrections,
    )
