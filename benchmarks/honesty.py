"""False positives of verification: the share of an honest judge's correct verdicts published unchanged.

The simulated judge quotes human-accepted texts. Sets: NQ (answers with `human_correct`), as coverage of the
golden answer and as relevance to a page that states it; ExpertQA (claims rated completely supported, quoted
with the sentences of their page that share most words with them); hand-written answers in six languages,
including dialogues and exams (`honest_cases.yaml`).

    python -m benchmarks.honesty                 one JSON object a line
    python -m benchmarks.honesty --write FILE    puts the table into a Markdown file, between its two marks
    python -m benchmarks.honesty --show N        also the first N verdicts that were changed
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from benchmarks.report import Line, data_file
from judge.metric import Metric, Outcome, ScoredOutcome
from judge.metrics.coverage import Coverage
from judge.metrics.relevance import Relevance
from judge.text.words import sentences, word_texts
from tests.judge.tasks import task_for

BEGIN, END = "<!-- honesty: begin -->", "<!-- honesty: end -->"
AIM = 0.995
_CASES = Path(__file__).parent / "honest_cases.yaml"
_MAX_SPAN_CHARS = 600
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One honest verdict: the event's texts, the judge's reply, and its score."""

    group: str
    language: str
    metric: str
    texts: Mapping[str, Any]
    reply: Json
    score: int


def cases() -> Iterator[Case]:
    """Yield all cases of all available sets."""
    yield from _hand_written()
    yield from _nq()
    yield from _expert_claims()


def _hand_written() -> Iterator[Case]:
    for one in yaml.safe_load(_CASES.read_text("utf-8")):
        group, language = one["kind"], one["language"]
        if "reference" in one:
            texts = {key: one[key] for key in ("question", "answer", "reference")}
            facts = one.get("facts") or [[one["reference"], one["answer"]]]
            yield Case(group, language, "coverage", texts, coverage_reply(facts), 5)
        if "context" in one:
            pages = one["context"]
            context = (
                pages if isinstance(pages, dict) else {f"Page-{n}": text for n, text in enumerate(pages, 1)}
            )
            texts = {"question": one["question"], "answer": one["answer"], "context": context}
            claims = [relevance_claim(*claim) for claim in one["claims"]]
            yield Case(group, language, "relevance", texts, relevance_reply(claims, 5), 5)


def _nq() -> Iterator[Case]:
    for event, label in _joined("nq"):
        if not label.get("human_correct"):
            continue
        question, answer, reference = event["question"], event["answer"], event["reference"]
        texts = {"question": question, "answer": answer, "reference": reference}
        yield Case("NQ, accepted", "English", "coverage", texts, coverage_reply([[reference, answer]]), 5)
        page = f"{reference}."
        texts = {"question": question, "answer": f"{answer} Evidence: [Page 1]", "context": {"Page-1": page}}
        claims = [relevance_claim(answer, [1], 1, page)]
        yield Case("NQ, accepted", "English", "relevance", texts, relevance_reply(claims, 5), 5)


def _expert_claims() -> Iterator[Case]:
    for event, label in _joined("expertqa"):
        pages: dict[int, str] = {
            int(name.removeprefix("Page-")): text for name, text in (event.get("context") or {}).items()
        }
        complete = []
        for claim in label["claims"]:
            known = [page for page in claim["pages"] if page in pages]
            if claim["support"] == "Complete" and known and claim["claim"].strip():
                complete.append((" ".join(claim["claim"].split()), known))
        if not complete:
            continue
        lines = [
            f"{text} Evidence: {' '.join(f'[Page {page}]' for page in known)}" for text, known in complete
        ]
        claims = []
        for text, known in complete:
            page, span = _nearest(text, {page: pages[page] for page in known})
            claims.append(relevance_claim(text, known, page, span))
        texts = {
            "question": event["question"],
            "answer": "\n".join(lines),
            "context": {f"Page-{page}": pages[page] for _, known in complete for page in known},
        }
        yield Case("ExpertQA, complete", "English", "relevance", texts, relevance_reply(claims, 5), 5)


def _nearest(claim: str, pages: Mapping[int, str]) -> tuple[int, str]:
    """Return the sentence of the pages that shares most words with a claim."""
    wanted = set(word_texts(claim))
    best = (-1.0, 0, "")
    for page, text in pages.items():
        for start, end in sentences(text):
            said = set(word_texts(text[start:end]))
            share = len(wanted & said) / (len(said) + 5) if said else 0.0
            if share > best[0]:
                best = (share, page, text[start:end][:_MAX_SPAN_CHARS])
    return best[1], best[2]


def _joined(name: str) -> Iterator[tuple[Json, Json]]:
    events, labels = data_file(f"{name}_events.jsonl"), data_file(f"{name}_labels.jsonl")
    if events is None or labels is None:
        print(
            f"skipped {name}: the shared data is not there (JUDGESTREAM_DATA names the folder)",
            file=sys.stderr,
        )
        return
    by_id = {one["event_id"]: one for one in map(json.loads, labels.read_text("utf-8").splitlines())}
    for line in events.read_text("utf-8").splitlines():
        event = json.loads(line)
        if event["event_id"] in by_id:
            yield event, by_id[event["event_id"]]


def coverage_reply(facts: Sequence[Sequence[str]]) -> Json:
    """Return a reply that matches each fact of the reference."""
    items = [
        {
            "item": span,
            "reference_span": span,
            "answer_span": said,
            "justification": "Stated.",
            "matched": True,
        }
        for span, said in facts
    ]
    organization = {"justification": "Alike.", "similar": True}
    return {"facts": items, "conclusions": [], "terms": [], "organization": organization}


def relevance_claim(span: str, pages: Sequence[int], page: int, words: str) -> Json:
    """Return a claim that its page supports."""
    return {
        "claim_span": span, "pages": list(pages), "page": page, "page_span": words,
        "justification": "The page says so.", "supported": True, "relevant": True,
    }  # fmt: skip


def relevance_reply(claims: Sequence[Json], score: int) -> Json:
    """Return a reply with these claims."""
    return {"claims": list(claims), "justification": "All is supported.", "score": score}


@cache
def _metric(name: str) -> Metric:
    return Coverage() if name == "coverage" else Relevance()


def published(case: Case) -> Outcome:
    """Return the published result of a case."""
    metric = _metric(case.metric)
    return metric.interpret(task_for(metric, **case.texts), json.dumps(case.reply))


def _measured(show: int = 0) -> dict[tuple[str, str, str], list[bool]]:
    found: dict[tuple[str, str, str], list[bool]] = {}
    for case in cases():
        outcome = published(case)
        unchanged = isinstance(outcome, ScoredOutcome) and outcome.score == case.score
        found.setdefault((case.group, case.language, case.metric), []).append(unchanged)
        if not unchanged and show > 0:
            show -= 1
            told = [one.kind + ": " + one.detail for one in outcome.corrections]
            print(
                json.dumps(
                    {"changed": [case.group, case.language, case.metric], "why": told}, ensure_ascii=False
                )
            )
    return found


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one line per set and language, and the total."""
    found = _measured()
    for (group, language, metric), some in found.items():
        yield _line(f"honest judge: {metric}, {group}, {language}", some)
    yield _line("honest judge: all", [one for some in found.values() for one in some])


def _line(name: str, some: Sequence[bool]) -> dict[str, object]:
    share = sum(some) / len(some)
    return Line(
        name,
        round(share, 4),
        "share published unchanged",
        aim=f">= {AIM}",
        met=share >= AIM,
        note=f"{sum(some)} of {len(some)}",
    ).as_json()


def table() -> str:
    """Return the table in Markdown."""
    measured = _measured()
    lines = ["| set | language | metric | verdicts | unchanged |", "|---|---|---|---:|---:|"]
    for key, some in measured.items():
        lines.append(f"| {' | '.join(key)} | {len(some)} | {_percent(some)} |")
    total = [flag for some in measured.values() for flag in some]
    lines.append(f"| **all** | | | {len(total)} | {_percent(total)} |")
    return "\n".join(lines)


def _percent(some: Sequence[bool]) -> str:
    return f"{100 * sum(some) / len(some):.1f}%"


def main(arguments: list[str]) -> int:
    """Print the numbers, or write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.honesty")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table into this file")
    parser.add_argument("--show", type=int, metavar="N", default=0, help="show N changed verdicts")
    given = parser.parse_args(arguments)
    if given.show:
        _measured(given.show)
    if given.write is None:
        for line in run():
            print(json.dumps(line), flush=True)
        return 0
    text = given.write.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        print(f"{given.write} must contain the lines {BEGIN} and {END}", file=sys.stderr)
        return 2
    given.write.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
