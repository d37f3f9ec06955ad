"""Longest block of the event loop by verification, over texts of the largest inline size.

Larger texts go to a child process (`judge/evaluate/limited.py`); the last line is the longest pause of the
loop while 20 pages of 45,000 characters and 200 claims are verified there. CPU times: machines are shared.

    python -m benchmarks.verification
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Final

from benchmarks.honesty import coverage_reply, relevance_claim, relevance_reply
from benchmarks.report import Line
from judge.errors import EventError, InvalidVerdictError
from judge.evaluate import limited
from judge.metric import READ_AT_ONCE, reading_size, size_of
from judge.metrics.coverage import Coverage
from judge.metrics.relevance import Relevance
from schemas import JudgeTask
from tests.judge.tasks import make_task

AIM_MILLISECONDS: Final = 50
_PROSE: Final = (
    "The council of Springfield approved the new bridge in 1987 after a long debate; it cost 4 million "
    "euros. "
)
TEXTS: Final[Mapping[str, str]] = {
    "prose": _PROSE, "one word": "a", "short words": "ab ", "numbers": "1 ", "dates": "1/1/", "times": "1:1 ",
    "clocks": "3:10pm ",
    "dots": ".", "dots and blanks": "... ", "brackets": "[", "links": "](", "footnotes": "[1]",
    "cited words": "[1] a. ", "tags": "<a ",
    "entities": "&amp;", "list items": "- a\n", "numbered items": "1. a\n", "bold marks": "**",
    "hyphens": "a-\n", "lead-ins": "Source: ",
    "round brackets": "(p. 1) x ", "cited lines": "[Page 1] a.\n", "quotes": "a'", "names": "a-1",
    "spelled numbers": "three ",
    "negations": "not ", "ligature of 18 letters": "\ufdfa", "accents": "\u0301", "unseen": "\u200b",
    "soft hyphens": "a\u00ad", "Han": "\u6771\u4eac",
    "Hangul": "\uac01",
    "Arabic": "\u0627\u0644\u062c\u0631\u0639\u0629 ", "German": "Stra\u00dfe f\u00fcr \u00c4rzte ",
}  # fmt: skip
"""Patterns that are repeated to build texts."""


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one line per metric, and the longest pause of the loop."""
    for name in ("coverage", "relevance"):
        times = {kind: _milliseconds(name, unit) for kind, unit in TEXTS.items()}
        worst = max(times, key=lambda kind: times[kind])
        yield Line(
            f"verification in the loop: {name}", round(times[worst], 1), "ms",
            aim=f"<= {AIM_MILLISECONDS}", met=times[worst] <= AIM_MILLISECONDS,
            note=f"the worst of {len(times)} texts: {worst}; prose takes {times['prose']:.1f} ms",
        ).as_json()  # fmt: skip
    pause, whole = asyncio.run(_pause())
    yield Line(
        "longest pause of the loop: 20 pages, 200 claims", round(pause, 1), "ms",
        aim=f"<= {AIM_MILLISECONDS}", met=pause <= AIM_MILLISECONDS, note=f"verified in {whole:.0f} ms",
    ).as_json()  # fmt: skip


def _milliseconds(name: str, unit: str) -> float:
    metric = Coverage() if name == "coverage" else Relevance()
    task, reply = _case(name, unit, READ_AT_ONCE)
    times = []
    for _ in range(3):
        begin = time.process_time()
        with contextlib.suppress(InvalidVerdictError, EventError):  # counts, too
            metric.interpret(task, reply)
        times.append(1000 * (time.process_time() - begin))
    return min(times)


def _case(name: str, unit: str, size: int) -> tuple[JudgeTask, str]:
    """Return a task and a reply with inexact quotations, of about this total size."""
    chars = size // 3
    while True:
        text = (unit * (chars // len(unit) + 1))[:chars]
        answer, page = f"{text} [Page 1]", f"{text}."
        step = max(chars // 15, 10)
        places = range(0, chars, step)
        if name == "coverage":
            task = make_task("coverage", answer=answer, reference=page)
            reply = coverage_reply([[text[at : at + step], f"{text[at + 1 : at + step]}q"] for at in places])
        else:
            task = make_task("relevance", answer=answer, context={"Page-1": page})
            claims = [
                relevance_claim(text[at : at + step], [1], 1, f"{text[at + 1 : at + step]}q") for at in places
            ]
            reply = relevance_reply(claims, 5)
        written = json.dumps(reply, ensure_ascii=False)
        if reading_size(task) + size_of(written) <= size:
            return task, written
        chars = chars * 9 // 10


async def _pause() -> tuple[float, float]:
    """Return the longest pause of the loop during verification, and its duration."""
    pages = {f"Page-{number}": _PROSE * 430 for number in range(1, 21)}
    lines = [f"{_PROSE.strip()} Number {number}. [Page {number % 20 + 1}]" for number in range(200)]
    task = make_task("relevance", answer="\n".join(lines), context=pages)
    claims = [relevance_claim(line, [n % 20 + 1], n % 20 + 1, _PROSE) for n, line in enumerate(lines)]
    reply = json.dumps(relevance_reply(claims, 5))
    longest, last, running = 0.0, time.perf_counter(), True

    async def watch() -> None:
        nonlocal longest, last
        while running:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    size = reading_size(task) + size_of(reply)
    await limited.run_limited(size, 60, len, "")  # the child has started
    watching = asyncio.create_task(watch())
    begin = last = time.perf_counter()
    await limited.run_limited(size, 60, Relevance().interpret, task, reply)
    whole = time.perf_counter() - begin
    running = False
    await watching
    return 1000 * longest, 1000 * whole


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result))
