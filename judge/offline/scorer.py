"""The offline judge: rules that read the project's own prompts and answer as a judge would. Pure and deterministic.

It compares words and understands nothing. What it says is meant for trying the whole path without a model, and its name is
on every result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from judge.metrics.prompting import parse_fenced
from judge.metrics.response_schemas import COVERAGE_SCHEMA, RELEVANCE_SCHEMA
from judge.metrics.scoring import coverage_score
from judge.offline.coverage_rules import coverage_evidence
from judge.offline.relevance_rules import relevance_evidence
from judge.text.tags import page_key, page_number

REFUSAL = "offline judge knows coverage and relevance only"
"""Said to a prompt that is not one of the project's own: a number for it would be invented."""

MetricName = Literal["coverage", "relevance"]


@dataclass(frozen=True, slots=True)
class Said:
    """What the offline judge says: a text, or why it says none."""

    text: str | None
    refusal: str | None = None


def judge_messages(contents: Sequence[str], *, schema_name: str | None) -> Said:
    """Answer a conversation.

    Args:
        contents: The texts of the user's turns; the last that holds a fenced event is judged.
        schema_name: The response schema's name; None asks for the published verdict.

    Returns:
        JSON in the form asked for, or a refusal.
    """
    sections = _sections(contents)
    metric = _metric(sections, schema_name)
    if metric is None:
        return Said(None, REFUSAL)
    if metric == "coverage":
        evidence = coverage_evidence(reference=sections["reference"], answer=sections["answer"])
        said = evidence if schema_name else _coverage_verdict(evidence)
    else:
        evidence = relevance_evidence(
            question=sections["question"],
            answer=sections["answer"],
            pages=_pages(sections),
            missing="missing_pages" in sections,
        )
        said = evidence if schema_name else _relevance_verdict(evidence)
    return Said(json.dumps(said, ensure_ascii=False))


def _sections(contents: Sequence[str]) -> dict[str, str]:
    for content in reversed(contents):
        try:
            sections = parse_fenced(content)
        except ValueError:
            continue
        if sections:
            return sections
    return {}


def _metric(sections: Mapping[str, str], schema_name: str | None) -> MetricName | None:
    """The metric whose prompt this is; None for another's, or where prompt and schema do not fit."""
    if not {"question", "answer"} <= sections.keys():
        return None
    others = sections.keys() - {"question", "answer"}
    metric: MetricName
    if others == {"reference"}:
        metric, schema = "coverage", COVERAGE_SCHEMA
    elif all(name == "missing_pages" or _page(name) is not None for name in others):
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
