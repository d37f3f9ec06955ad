"""Savings from sending only cited pages: input tokens per judged event, for relevance.

The events are those of ExpertQA that cite exactly three pages. The other pages of a 20-page document come
from other events. Pages have two lengths: one passage (about 840 characters), and 500 words, filled with
passages of other events. All messages of the request are counted, at four characters per token like the
offline judge. Two further ratios: without the instructions, which are a constant prefix that endpoints cache;
and only of question, answer and pages, the lower bound, which is above 3/20 because question and answer are
in both.

The offline judge judges both requests; the number of events whose verdict differs must be 0.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle, islice
from typing import Any

from benchmarks.report import Line, data_file
from judge.chat import ChatMessage, ChatRequest
from judge.metric import Outcome, unsampled_task
from judge.metrics.prompting import built_in_messages, load_prompt
from judge.metrics.relevance import RELEVANCE_SCHEMA, Relevance
from judge.offline.rules import judge_messages
from judge.offline.server import CHARS_PER_TOKEN
from judge.text.citations import page_key, page_number, read_citations
from schemas import QAEvent

PAGES = 20
CITED = 3
WORDS_A_PAGE = 500
AIM = 0.2
_FILE = "expertqa_events.jsonl"
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Measured:
    """One event's requests.

    Args:
        sent: Characters of the request with only the cited pages.
        all_pages: Characters of the request with all pages.
        instructions: Characters of the constant part.
        texts: Characters of question, answer and cited pages.
        all_texts: Characters of question, answer and all pages.
        same_verdict: Whether both requests gave the same verdict.
    """

    sent: int
    all_pages: int
    instructions: int
    texts: int
    all_texts: int
    same_verdict: bool


def document(
    own: Mapping[str, str], others: Sequence[str], *, start: int, words_a_page: int
) -> dict[str, str]:
    """Return a document of 20 pages.

    Args:
        own: The event's pages, by name.
        others: Pages of other events.
        start: Start offset in `others`, so that documents differ.
        words_a_page: Each page is filled with further passages up to this many words; 0: one passage per
            page.
    """
    passages = islice(cycle(others), start % len(others), None)
    pages = dict(own)
    number = max((page_number(name) or 0) for name in own)
    while len(pages) < PAGES:
        number += 1
        pages[page_key(number)] = next(passages)
    for name, text in pages.items():
        parts, words = [text], len(text.split())
        while words < words_a_page:
            parts.append(next(passages))
            words += len(parts[-1].split())
        pages[name] = "\n".join(parts)
    return pages


def measure(event: Mapping[str, Any], pages: Mapping[str, str]) -> Measured:
    """Judge one event in both ways, offline."""
    metric = Relevance()
    task = unsampled_task(
        QAEvent.model_validate({**event, "context": dict(pages)}), metric, source=_FILE, now=_WHEN
    )
    request = metric.prepare(task)
    if not isinstance(request, ChatRequest):
        raise TypeError(f"{event['event_id']} needs no call; choose events that cite pages")
    sections = {"question": task.question, "answer": task.answer, **pages}
    whole = built_in_messages(load_prompt("relevance.evidence"), sections)

    def verdict(messages: Sequence[ChatMessage]) -> Outcome:
        said = judge_messages(messages, schema=RELEVANCE_SCHEMA)
        return metric.interpret(task, said or "")

    return Measured(
        sent=_chars(request.messages),
        all_pages=_chars(whole),
        instructions=len(request.messages[0].content),
        texts=_total(task.question, task.answer, *(task.context or {}).values()),
        all_texts=_total(task.question, task.answer, *pages.values()),
        same_verdict=_published(verdict(request.messages)) == _published(verdict(whole)),
    )


def run() -> Iterator[dict[str, object]]:
    """Measure; skipped with a message if the data is missing."""
    path = data_file(_FILE)
    if path is None:
        message = f"skipped: {_FILE} is not there (JUDGESTREAM_DATA names the folder)"
        print(message, file=sys.stderr)
        yield Line("tokens: relevance", None, "tokens an event", note=message).as_json()
        return
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    for words_a_page, name in ((0, "a passage a page"), (WORDS_A_PAGE, f"{WORDS_A_PAGE} words a page")):
        for line in _lines(name, measured(events, words_a_page=words_a_page)):
            yield line.as_json()


def measured(events: Sequence[Mapping[str, Any]], *, words_a_page: int) -> list[Measured]:
    """Measure the events that cite exactly three existing pages."""
    found = []
    for place, event in enumerate(events):
        own = event.get("context") or {}
        cited = [page_key(page) for page in read_citations(event["answer"]).pages]
        if len(cited) != CITED or set(cited) != set(own):
            continue
        others = [
            text for other in events if other is not event for text in (other.get("context") or {}).values()
        ]
        # An odd stride, so that documents have different pages.
        pages = document(own, others, start=place * 37, words_a_page=words_a_page)
        found.append(measure(event, pages))
    return found


def _lines(name: str, found: Sequence[Measured]) -> Iterator[Line]:
    title = f"tokens: relevance, {PAGES} pages, {CITED} cited, {name}"
    aim = f"<= {AIM} of all pages"
    if not found:
        yield Line(title, None, "tokens an event", aim=aim, note="no event cites exactly three pages")
        return
    sent, whole, constant, texts, all_texts = (
        sum(getattr(one, field) for one in found) / len(found) / CHARS_PER_TOKEN
        for field in ("sent", "all_pages", "instructions", "texts", "all_texts")
    )
    note = f"{len(found)} events of ExpertQA; baseline: all pages sent; {CHARS_PER_TOKEN} characters a token"
    yield Line(
        title,
        round(sent),
        "tokens an event",
        baseline=round(whole),
        aim=aim,
        met=sent <= AIM * whole,
        note=note,
    )
    for suffix, value, baseline in (
        ("without the instructions", sent - constant, whole - constant),
        ("the texts alone", texts, all_texts),
    ):
        yield Line(f"{title}, {suffix}", round(value), "tokens an event", baseline=round(baseline), note=note)
    changed = sum(not one.same_verdict for one in found)
    yield Line(
        f"{title}: verdicts changed",
        changed,
        "events",
        aim="0",
        met=changed == 0,
        note=f"of {len(found)}, by the offline judge",
    )


def _total(*texts: str) -> int:
    return sum(len(text) for text in texts)


def _chars(messages: Sequence[ChatMessage]) -> int:
    return sum(len(message.content) for message in messages)


def _published(outcome: Outcome) -> object:
    return None if outcome.verdict is None else dict(outcome.verdict)


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result))
