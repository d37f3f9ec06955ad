"""Choice of the similarity that separates quotations with slips from invented ones.

Basis of `judge.text.quotations.letters.MIN_SIMILARITY`.

Real quotations are sentences of ExpertQA's pages with one to three slips (a letter removed, doubled or
replaced, a word removed, two words swapped). Invented ones are paraphrased claims of the answers, compared
with the page that they cite: a low threshold would accept the most similar passage.

    python -m benchmarks.quotations
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence

from benchmarks.report import Line, data_file
from judge.text.quotations import Letters, Quotable, needed_similarity
from judge.text.words import sentences

_SEED = 7
_SAMPLES = 1500
_MIN_CHARS, _MAX_CHARS = 40, 300


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one line per figure."""
    pages = list(_pages())
    if not pages:
        print("skipped: the shared data is not there (JUDGESTREAM_DATA names the folder)", file=sys.stderr)
        return
    chance = random.Random(_SEED)  # noqa: S311 - a benchmark's sample
    slipped = [_similarity(_with_slips(words, chance), text) for words, text in _sentences(pages, chance)]
    claims = [
        _similarity(claim, text) for claim, text in _claims() if not any(Quotable(text).index.find_all(claim))
    ]
    found, taken = (sum(one >= needed for one, needed in some) / len(some) for some in (slipped, claims))
    for name, some, share, aim, met in (
        ("quotations with one to three slips", slipped, found, ">= 0.95", found >= 0.95),
        ("claims in words of their own", claims, taken, "<= 0.03", taken <= 0.03),
    ):
        ranks = sorted(similarity for similarity, _ in some)
        told = ", ".join(
            f"{percent}%: {ranks[percent * (len(ranks) - 1) // 100]:.2f}" for percent in (1, 5, 50, 95, 99)
        )
        yield Line(
            f"taken for quotations: {name}", round(share, 4), "share", aim=aim, met=met,
            note=f"{len(some)} texts; similarity at {told}",
        ).as_json()  # fmt: skip


def _pages() -> Iterator[str]:
    path = data_file("expertqa_events.jsonl")
    for line in [] if path is None else path.read_text("utf-8").splitlines():
        yield from (json.loads(line).get("context") or {}).values()


def _sentences(pages: Sequence[str], chance: random.Random) -> Iterator[tuple[str, str]]:
    for _ in range(_SAMPLES):
        text = chance.choice(pages)
        long = [text[start:end] for start, end in sentences(text) if _MIN_CHARS <= end - start <= _MAX_CHARS]
        if long:
            yield chance.choice(long), text


def _claims() -> Iterator[tuple[str, str]]:
    events, labels = data_file("expertqa_events.jsonl"), data_file("expertqa_labels.jsonl")
    if events is None or labels is None:
        return
    contexts = {
        one["event_id"]: one.get("context") or {}
        for one in map(json.loads, events.read_text("utf-8").splitlines())
    }
    for line in labels.read_text("utf-8").splitlines():
        label = json.loads(line)
        for claim in label["claims"]:
            for page in claim["pages"][:1]:
                text = contexts.get(label["event_id"], {}).get(f"Page-{page}")
                if text and _MIN_CHARS <= len(claim["claim"]) <= _MAX_CHARS:
                    yield claim["claim"], text


def _similarity(words: str, text: str) -> tuple[float, float]:
    """Return the similarity of the nearest passage, and the required one."""
    wanted = Letters(words, keep_marks=False)
    found = Letters(text, keep_marks=False).candidates(wanted, 0)
    return max((one[0] for one in found), default=0.0), needed_similarity(len(wanted.row))


def _with_slips(words: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 3)):
        parts = words.split(" ")
        place = chance.randrange(len(parts))
        kind = chance.randrange(5)
        if kind == 0 and len(parts) > 6:
            del parts[place]
        elif kind == 1 and place + 1 < len(parts):
            parts[place], parts[place + 1] = parts[place + 1], parts[place]
        elif parts[place]:
            at = chance.randrange(len(parts[place]))
            letter = "" if kind == 2 else parts[place][at] * 2 if kind == 3 else chance.choice("aeiorst")
            parts[place] = parts[place][:at] + letter + parts[place][at + 1 :]
        words = " ".join(parts)
    return words


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result))
