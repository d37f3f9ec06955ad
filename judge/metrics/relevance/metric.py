"""Relevance: whether an answer's claims are supported by the pages they cite and answer the question, 1 to 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judge.chat import ChatRequest, ResponseSchema
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Mode, Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.prompting import PromptSource, built_in_hash, built_in_messages, schema_hash
from judge.metrics.relevance.caps import caps_of_tags, lowered
from judge.metrics.relevance.evidence import (
    CheckedClaim,
    RelevanceReply,
    told_pages,
    unsupported_claim,
    verify_relevance,
)
from judge.metrics.relevance.verbatim import own_verdict
from judge.metrics.response_schemas import RELEVANCE_SCHEMA
from judge.metrics.scoring import RELEVANCE_RANGE, relevance_cap
from judge.metrics.structured import check_score, read_evidence
from judge.text.index import is_blank
from judge.text.quoting import quoted
from judge.text.tags import Claim, cited_pages, page_key, page_number, tagged_claims
from schemas import JudgeTask, QAEvent

MAX_LISTED_MISSING = 200
"""Missing pages that the prompt names."""


class Relevance:
    """The metric `relevance`.

    In evidence mode the judge lists the answer's claims with the words of the pages that support them and gives its
    score by the rubric; code verifies the claims and lowers a score that they do not bear out. In verbatim mode the score
    is the judge's alone, lowered where the answer's tags, or the words of answer and pages, by themselves rule it out.

    Args:
        mode: How the judge is asked.
        pack: Prompts that replace the built-in ones; the mode is then verbatim.
    """

    def __init__(self, *, mode: Mode = "evidence", pack: PromptSource | None = None) -> None:
        self._mode: Mode = "verbatim" if pack is not None else mode
        self._pack = pack

    @property
    def name(self) -> str:
        """`relevance`."""
        return "relevance"

    @property
    def score_range(self) -> tuple[int, int]:
        """1 to 5."""
        return RELEVANCE_RANGE

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
        """Version of the rules in this module, `relevance_evidence`, `relevance_overlap`, `refusals`, `tags` and `scoring`."""
        return "relevance-3"

    def select(self, event: QAEvent) -> Inputs:
        """Question, answer and the cited pages that exist, under their canonical names."""
        if event.context is None:
            return Inputs(question=event.question, answer=event.answer)
        pages = _cited_texts(event.answer, event.context)
        return Inputs(question=event.question, answer=event.answer, context=_by_key(pages))

    def parts(self, task: JudgeTask, *, halve: bool = False) -> tuple[JudgeTask, ...]:  # noqa: ARG002 - the protocol's
        """The task as it is."""
        return (task,)

    def merged(self, replies: Sequence[str]) -> str:
        """The one reply."""
        return replies[0]

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the request; without a text, or with none of the cited pages there, nothing is asked."""
        if is_blank(task.question) or is_blank(task.answer) or task.context is None:
            return UnscoredOutcome("missing_input")
        pages = _cited_texts(task.answer, task.context)
        claims = tagged_claims(task.answer)
        if claims and not pages:
            return _all_missing(claims, cited_pages(task.answer))
        if self._pack is not None:
            inputs = Inputs(question=task.question, answer=task.answer, context=_by_key(pages))
            return ChatRequest(self._pack.render(inputs), response_schema=self._schema)
        sections = {"question": task.question, "answer": task.answer, **_by_key(pages)}
        missing = [page for page in cited_pages(task.answer) if page not in pages]
        if missing:
            lines = [page_key(page) for page in missing[:MAX_LISTED_MISSING]]
            if len(missing) > MAX_LISTED_MISSING:
                lines.append(f"and {len(missing) - MAX_LISTED_MISSING} more")
            sections["missing_pages"] = "\n".join(lines)
        return ChatRequest(built_in_messages(self._prompt, sections), response_schema=self._schema)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Turn the judge's reply into a verdict.

        Raises:
            InvalidVerdictError: The reply cannot be made into one; the detail says what to mend.
        """
        pages = _cited_texts(task.answer, task.context or {})
        missing = [page for page in cited_pages(task.answer) if page not in pages]
        if self._mode == "verbatim":
            if self._pack is not None:
                self._pack.check(reply)
            return own_verdict(task, reply, pages, missing)
        listed = read_evidence(RelevanceReply, reply, key="claims")
        claims, corrections = verify_relevance(
            listed.claims, answer=task.answer, pages=pages, question=task.question
        )
        evidence = {"claims": [claim.as_json() for claim in claims], "judge_score": listed.score}
        if not claims and listed.claims:
            raise InvalidVerdictError(
                f"claims[0].claim_span {quoted(listed.claims[0].claim_span)} is not in the answer, nor is that of any other "
                "claim; copy them character by character"
            )
        if not claims:
            evidence = {"claims": [], "justification": listed.justification}
            return UnscoredOutcome("no_claims", evidence=evidence, corrections=corrections)
        score = check_score(listed.score, low=RELEVANCE_RANGE[0], high=RELEVANCE_RANGE[1])
        caps = [_cap_of_claims(claims), *caps_of_tags(missing)]
        return lowered(score, listed.justification, caps, evidence, corrections)

    @property
    def _prompt(self) -> str:
        return f"relevance.{self._mode}"

    @property
    def _schema(self) -> ResponseSchema | None:
        if self._pack is not None:
            return self._pack.response_schema
        return RELEVANCE_SCHEMA if self._mode == "evidence" else None


def _cited_texts(answer: str, context: Mapping[str, str]) -> dict[int, str]:
    """The cited pages that exist, in order of mention. Names are read leniently; the canonical one goes first."""
    numbered: dict[int, str] = {}
    for key, text in context.items():
        number = page_number(key)
        if number is not None:
            numbered.setdefault(number, text)
    return {
        page: context.get(page_key(page), numbered[page]) for page in cited_pages(answer) if page in numbered
    }


def _by_key(pages: Mapping[int, str]) -> dict[str, str]:
    return {page_key(page): text for page, text in pages.items()}


def _all_missing(claims: Sequence[Claim], cited: Sequence[int]) -> ScoredOutcome:
    """Every tag points to pages that are not there: no judge is needed to see that."""
    justification = (
        f"No cited page is in the context: {told_pages(cited)}. No claim of the answer is supported."
    )
    evidence = {
        "claims": [
            unsupported_claim(claim, f"Missing from the context: {told_pages(claim.pages)}.").as_json()
            for claim in claims
        ]
    }
    lowest = RELEVANCE_RANGE[0]
    return ScoredOutcome(
        verdict={"score": lowest, "justification": justification}, score=lowest, evidence=evidence
    )


def _cap_of_claims(claims: Sequence[CheckedClaim]) -> tuple[int, str]:
    upheld = sum(claim.upheld for claim in claims)
    flawed = len(claims) - upheld
    return (
        relevance_cap(upheld=upheld, total=len(claims)),
        f"{flawed} of {len(claims)} claims {'is' if flawed == 1 else 'are'} not both relevant and supported by a cited page",
    )
