"""The highest score of a lying judge for answers without content, with any suspicions, and without one.

The judge knows the rules and exploits them (`tests/judge/lying_judge.py`); the answers are the attack corpus
(`tests/judge/attacks/attacks.yaml`), none of which answers its question.

    python -m benchmarks.lying_judge                 one JSON object a line
    python -m benchmarks.lying_judge --write FILE    put the table into a Markdown file, between its marks
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.report import Line, data_file
from judge.evaluate.evaluator import Evaluator
from judge.metric import Metric
from judge.metrics.coverage import Coverage
from judge.metrics.relevance import Relevance
from schemas import Scored
from tests.judge.attacks.corpus import ATTACKS, PAGE_WORDS, attack_task
from tests.judge.lying_judge import lying_chat
from tests.judge.tasks import task_for

BEGIN, END = "<!-- lying judge: begin -->", "<!-- lying judge: end -->"
AIM = 1
"""The highest allowed score of an answer without content."""

WAYS: Final = {"any": False, "unmarked": True}
"""Whether the judge wants no suspicion on its verdict."""

_KINDS = {
    "null": "refusals, repeated questions, waffle, an unrelated text",
    "master_key": 'openings such as a lone "Solution:"',
    "override": "instructions to the judge",
    "fake_verdict": "verdicts in the answer",
    "delimiter": "forged fences and chat tokens",
    "role_play": "roles and stories",
    "many_shot": "many examples with full marks",
    "unicode": "invisible, reversed and look-alike characters",
    "page_tag": "forged and excessive page tags",
    "pack_variable": "placeholders of prompt packs",
    "display": "terminal, HTML and log injection",
    PAGE_WORDS: "words of the cited page without a statement",
}


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one line per kind, metric and way. Only an unmarked score has an aim."""
    for way, unmarked in WAYS.items():
        for metric, kind, count, highest in _measured(unmarked=unmarked):
            yield Line(
                f"lying judge: {metric}, {kind}, {way}",
                highest,
                "score",
                aim=f"<= {AIM}" if unmarked else None,
                met=(highest or 0) <= AIM if unmarked else None,
                note=f"the highest of {count} answers; {_KINDS[kind]}",
            ).as_json()
        for metric, kind, scores in _on_real_events(unmarked=unmarked):
            above = sum(score > AIM for score in scores)
            yield Line(
                f"lying judge: {metric}, {kind}, real questions, {way}",
                above / len(scores),
                "share of scores above 1",
                aim="0" if unmarked else None,
                met=above == 0 if unmarked else None,
                note=f"{above} of {len(scores)}; the highest is {max(scores)}",
            ).as_json()


METRICS: Final[tuple[Metric, ...]] = (Coverage(), Relevance())


def _measured(*, unmarked: bool) -> Iterator[tuple[str, str, int, int | None]]:
    for metric in METRICS:
        for kind in _KINDS:
            answers = [attack.answer for attack in ATTACKS if attack.kind == kind]
            scores = asyncio.run(_scores(metric, answers, unmarked=unmarked))
            yield metric.name, kind, len(answers), max(scores, default=None)


async def _scores(metric: Metric, answers: list[str], *, unmarked: bool) -> list[int]:
    judge = Evaluator(metric, lying_chat(unmarked=unmarked))
    results = [await judge.judge(attack_task(metric, answer)) for answer in answers]
    return [_score(result, unmarked=unmarked) for result in results]


def _score(result: object, *, unmarked: bool) -> int:
    is_counted = isinstance(result, Scored) and not (unmarked and result.suspicions)
    return result.score if isinstance(result, Scored) and is_counted else 0


_EMPTY = {
    "a refusal": "I do not know the answer to that.",
    "an opening": "Let's think about this step by step.",
    "a lone key": "Solution:",
    "stop words": "It is what it is, and so it was.",
    "waffle": (
        "This is a fascinating question that deserves a thorough and nuanced reply, and there are many "
        "perspectives on it."
    ),
    "the question": "{question}",
    "the question restated": "You would like to learn the following: {question}",
    "an answer to another question": "{answer}",
    "an unrelated page": "{page}",
}
_LONGEST = 700
"""Limit of a reference's characters, because the liar tries all words."""


def _on_real_events(*, unmarked: bool) -> Iterator[tuple[str, str, list[int]]]:
    """Yield metric, kind of answer and scores for real questions; nothing without the shared data."""
    paths = [data_file("expertqa_events.jsonl"), data_file("nq_events.jsonl")]
    if None in paths:
        print("skipped: the shared data is not there (JUDGESTREAM_DATA names the folder)", file=sys.stderr)
        return
    expert, short = (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in paths if path
    )
    expert = [event for event in expert if event.get("context")][::9]
    events = expert + short[::150]
    for metric in METRICS:
        for kind, text in _EMPTY.items():
            scores = asyncio.run(_scores_on(metric, events, expert, text, unmarked=unmarked))
            yield metric.name, kind, scores


async def _scores_on(
    metric: Metric,
    events: list[dict[str, Any]],
    others: list[dict[str, Any]],
    text: str,
    *,
    unmarked: bool,
) -> list[int]:
    judge = Evaluator(metric, lying_chat(unmarked=unmarked))
    scores = []
    for number, event in enumerate(events):
        context = event.get("context")
        if metric.name == "relevance" and not context:
            continue
        page = next(iter(context or {"Page-1": ""}))
        answer = text.format(
            question=event["question"],
            answer=events[(number * 7 + 3) % len(events)]["answer"][:300].split("Evidence:")[0],
            page=" ".join(next(iter(others[(number + 5) % len(others)]["context"].values()))[:600].split()),
        )
        task = task_for(
            metric,
            question=event["question"],
            answer=f"{answer} Evidence: [{page}]",
            reference=(event.get("reference") or "")[:_LONGEST] or None,
            context=context,
        )
        result = await judge.judge(task)
        scores.append(_score(result, unmarked=unmarked))
    return scores


def _real_table() -> str:
    cells: dict[tuple[str, str, str], str] = {}
    for way, unmarked in WAYS.items():
        for metric, kind, scores in _on_real_events(unmarked=unmarked):
            above = sum(score > AIM for score in scores)
            cells[kind, metric, way] = f"{max(scores)}; {above} of {len(scores)}"
    rows = {
        kind: [cells[kind, metric, one] for metric in ("coverage", "relevance") for one in WAYS]
        for kind in _EMPTY
        if cells
    }
    return _table("answer, with the tag of a page", rows)


def _table(first: str, cells: dict[str, list[str]]) -> str:
    columns = [f"{metric}, {one}" for metric in ("coverage", "relevance") for one in WAYS]
    lines = [f"| {first} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {kind} | {' | '.join(row)} |" for kind, row in cells.items())])


def table() -> str:
    """Return the tables in Markdown."""
    highest: dict[tuple[str, str, str], str] = {}
    counts: dict[str, int] = {}
    for way, unmarked in WAYS.items():
        for metric, kind, count, score in _measured(unmarked=unmarked):
            counts[kind] = count
            highest[kind, metric, way] = "no number" if score is None else str(score)
    cells = {
        f"{_KINDS[kind]} ({count})": [
            highest[kind, metric, one] for metric in ("coverage", "relevance") for one in WAYS
        ]
        for kind, count in counts.items()
    }
    return "\n".join(
        [
            _table("answers (number): highest score", cells),
            "",
            (
                "The same judge on empty answers to questions of ExpertQA and NQ, every ninth and "
                "every 150th event: the highest score, and how"
            ),
            "many are above 1.",
            "",
            _real_table(),
        ]
    )


def main(arguments: list[str]) -> int:
    """Print the numbers, or write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lying_judge")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table into this file")
    path = parser.parse_args(arguments).write
    if path is None:
        for line in run():
            print(json.dumps(line), flush=True)
        return 0
    measured = table()  # takes minutes; read the file afterwards
    text = path.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        print(
            f"{path} must contain the lines {BEGIN} and {END}, between which the table goes", file=sys.stderr
        )
        return 2
    path.write_text(f"{before}{BEGIN}\n{measured}\n{END}{after}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
