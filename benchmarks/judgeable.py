"""Events with answers to judge, and a judge that always rates them as supported."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager

from benchmarks.broker import running
from benchmarks.instant_judge import MARK, PLACEHOLDER
from judge.offline.rules import relevance_evidence
from schemas import QAEvent

_LETTERS = str.maketrans("0123456789", "abcdefghij")
_PAGES = (2, 3, 7)
_PAGE = (
    "The gauge at the old bridge was read {number} times a day. In spring the level stood {number} metres "
    "above its mean, "
    "and the lower streets were flooded. The council had the walls raised afterwards, at a cost that "
    "nobody had foreseen. "
    "Snow on the northern slopes melts in April, so that the river carries most of its water in May. "
)
_CLAIM = (
    "In spring the level at gauge {name} stood {number} metres above its mean. Evidence: [Page {number}]\n"
)
_QUESTION = "How high does the river rise in spring?"


def instant_judge(latency_seconds: float) -> AbstractContextManager[str]:
    """Run the judge in a separate process; yields its address."""
    event = event_of(PLACEHOLDER, paragraphs=1)
    pages = {number: (event.context or {})[f"Page-{number}"] for number in _PAGES}
    evidence = relevance_evidence(question=_QUESTION, answer=event.answer, pages=pages, missing=False)
    plan = {"reply": json.dumps(evidence), "latency_seconds": latency_seconds}
    return running([sys.executable, "-m", "benchmarks.instant_judge", json.dumps(plan)])


def event_of(name: str, *, paragraphs: int = 3) -> QAEvent:
    """Return an event with unique texts, so that caches do not help.

    Args:
        name: Eight letters; see `name_of`.
        paragraphs: Paragraphs of 300 characters in its three pages.
    """
    return QAEvent(
        event_id=f"event-{name}",
        question=_QUESTION,
        answer="".join(_CLAIM.format(name=name, number=number) for number in _PAGES),
        context={
            f"Page-{number}": f"{_PAGE.format(number=number) * paragraphs}{MARK.decode()}{name}."
            for number in _PAGES
        },
        labels={"app": "bench"},
    )


def name_of(number: int) -> str:
    """Return a word for a number, as long as the placeholder."""
    return f"{number:08d}".translate(_LETTERS)
