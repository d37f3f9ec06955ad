"""The offline judge: rules that read prompts and reply like a judge. Pure and deterministic.

It only compares words. Use it to try the whole path without a model; every result carries its name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from judge.chat import ChatMessage, ResponseSchema
from judge.metrics.prompting import parse_fenced
from judge.metrics.replies.response_schemas import COVERAGE_SCHEMA, RELEVANCE_SCHEMA
from judge.metrics.scoring import COVERAGE_RANGE, RELEVANCE_RANGE, coverage_score, half_up
from judge.offline.coverage_rules import coverage_evidence
from judge.offline.library_rules import NO_MODEL, library_evidence
from judge.offline.prompts import Shown, fill, read_choices, read_range, read_shown
from judge.offline.relevance_rules import relevance_evidence
from judge.text.citations.sources import citing_of_names
from judge.text.index import is_blank
from judge.text.overlap import Vocabulary
from judge.text.tags import cited_pages, page_key, page_number, tagged_claims, without_tags
from judge.text.words import content_words, word_texts
from judge.verdict.repair import REPAIR_BEGINNING

REFUSAL = "offline judge found no answer in this prompt"
"""Reply to a prompt without an answer to judge."""

MetricName = Literal["coverage", "relevance"]


@dataclass(frozen=True, slots=True)
class Said:
    """The offline judge's reply: a text or a refusal."""

    text: str | None
    refusal: str | None = None


def judge_messages(messages: Sequence[ChatMessage], *, schema: ResponseSchema | None = None) -> Said:
    """Answer a conversation.

    Args:
        messages: Its turns. The last user turn with a fenced event is judged; without one, the prompt is a
            pack's, and its texts are found by their labels.
        schema: The response schema; None: reply with the published verdict.

    Returns:
        JSON in the requested form, or a refusal.
    """
    contents = [message.content for message in messages if message.role == "user"]
    sections = _sections(contents)
    if sections is None:
        said = _packs_verdict(messages, contents, schema)
    else:
        said = _built_in(sections, None if schema is None else schema.name)
    return Said(None, REFUSAL) if said is None else Said(json.dumps(said, ensure_ascii=False))


def _sections(contents: Sequence[str]) -> dict[str, str] | None:
    """Return the last fenced event; None if there is none, empty if its fence is not closed."""
    for content in reversed(contents):
        try:
            sections = parse_fenced(content)
        except ValueError:
            return {}
        if sections:
            return sections
    return None


def _built_in(sections: Mapping[str, str], schema_name: str | None) -> dict[str, Any] | None:
    if schema_name is not None and schema_name.endswith("_evidence"):
        said = library_evidence(schema_name.removesuffix("_evidence"), sections)
        if said is not None:
            return said
    metric = _metric(sections, schema_name)
    if metric == "coverage":
        evidence = coverage_evidence(reference=sections["reference"], answer=sections["answer"])
        return evidence if schema_name else _coverage_verdict(evidence)
    if metric == "relevance":
        evidence = relevance_evidence(
            question=sections["question"],
            answer=sections["answer"],
            pages=_pages(sections),
            missing="missing_pages" in sections,
            citing=citing_of_names(sections.get("page_names", "")),
        )
        return evidence if schema_name else _relevance_verdict(evidence)
    return None


def _metric(sections: Mapping[str, str], schema_name: str | None) -> MetricName | None:
    """Return the metric of a prompt; None if it is another's, or prompt and schema do not match."""
    if not {"question", "answer"} <= sections.keys():
        return None
    others = sections.keys() - {"question", "answer"}
    metric: MetricName
    if others == {"reference"}:
        metric, schema = "coverage", COVERAGE_SCHEMA
    elif all(name in {"missing_pages", "page_names"} or _page(name) is not None for name in others):
        metric, schema = "relevance", RELEVANCE_SCHEMA
    else:
        return None
    return metric if schema_name in {None, schema.name} else None


def _page(name: str) -> int | None:
    number = page_number(name)
    return number if number is not None and page_key(number) == name else None


def _pages(sections: Mapping[str, str]) -> dict[int, str]:
    numbered = ((_page(name), text) for name, text in sections.items())
    return {number: text for number, text in numbered if number is not None}


def _packs_verdict(
    messages: Sequence[ChatMessage], contents: Sequence[str], schema: ResponseSchema | None
) -> dict[str, Any] | None:
    """Return a verdict in the form that a pack's prompt requests, by the rules that fit its texts."""
    events = [content for content in contents if not content.startswith(REPAIR_BEGINNING)]
    shown = read_shown(events[-1]) if events else Shown("")
    if is_blank(shown.answer):
        return None
    texts = [message.content for message in messages if message.role != "assistant"]
    form = None if schema is None else schema.schema
    bounds = read_range(texts, form)
    if shown.reference and bounds == COVERAGE_RANGE and any("rationale" in text for text in texts):
        verdict = _coverage_verdict(coverage_evidence(reference=shown.reference, answer=shown.answer))
    elif shown.pages and bounds == RELEVANCE_RANGE and tagged_claims(shown.answer):
        numbered = {page_number(name): text for name, text in shown.pages.items()}
        pages = {number: text for number, text in numbered.items() if number is not None}
        missing = any(page not in pages for page in cited_pages(shown.answer))
        verdict = _relevance_verdict(
            relevance_evidence(question=shown.question, answer=shown.answer, pages=pages, missing=missing)
        )
    else:
        verdict = _by_share(shown, *bounds, read_choices(texts, form))
    if form is None:
        return verdict
    filled = fill(form, score=verdict["score"], reason=str(verdict.get("justification", NO_MODEL)))
    return {**filled, **{name: value for name, value in verdict.items() if name in filled}}


def _by_share(shown: Shown, low: int, high: int, choices: Sequence[str | bool]) -> dict[str, Any]:
    """Return a score from the share of words that the answer shares with reference, pages or question.

    The first choice counts as the best, because packs list labels in this order. The meaning of `true` is
    unknown.
    """
    said = Vocabulary(word_texts(without_tags(shown.answer)))
    claimed = [word.text for word in content_words(without_tags(shown.answer))]
    if shown.reference:
        wanted, known, told = (
            [word.text for word in content_words(shown.reference)],
            said,
            "the answer has {} of the reference's words",
        )
    elif shown.pages:
        known = Vocabulary(word for text in shown.pages.values() for word in word_texts(text))
        wanted, told = claimed, "the context has {} of the answer's words"
    elif shown.question:
        wanted, known, told = (
            [word.text for word in content_words(shown.question)],
            said,
            "the answer has {} of the question's words",
        )
    else:
        wanted, known, told = [], said, "there is nothing to compare the answer with: the middle of the range"
    different = set(wanted)
    share = (
        Fraction(sum(word in known for word in different), len(different)) if different else Fraction(1, 2)
    )
    return {
        "score": choices[half_up((1 - share) * (len(choices) - 1))]
        if choices
        else low + half_up(share * (high - low)),
        "justification": f"{told.format(f'{float(share):.0%}')}. {NO_MODEL}".capitalize(),
    }


def _coverage_verdict(evidence: Mapping[str, Any]) -> dict[str, Any]:
    def count(name: str) -> tuple[int, int]:
        return sum(item["matched"] for item in evidence[name]), len(evidence[name])

    score = coverage_score(
        facts=count("facts"),
        conclusions=count("conclusions"),
        terms=count("terms"),
        organization=evidence["organization"]["similar"],
    )
    return score.verdict()


def _relevance_verdict(evidence: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "score": evidence["score"] if evidence["claims"] else None,
        "justification": evidence["justification"],
    }
