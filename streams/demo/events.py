"""The demo's events: a fictitious product answers questions, first well and then worse.

Event n depends on n alone: two runs have the same answers for the same tenants.
"""

from __future__ import annotations

import hashlib
import sys
import time
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

MODELS: Mapping[str, float] = {"atlas-large": 0.65, "atlas-small": 0.8, "borealis-mini": 0.95}
"""The product's models, with their share of bad answers after the bad deployment."""
TENANTS: Mapping[str, float] = {"gold": 0.1, "silver": 0.3, "bronze": 0.6}
"""The product's customers, with their share of the traffic."""
TENANT_ENDS = list(accumulate(TENANTS.values()))[:-1]
EVERY = 100
"""One in this many events is undecodable and one unroutable."""
UNDECODABLE_AT = 37
UNROUTABLE_AT = 73
GOOD_SECONDS, WORSE_SECONDS, RECOVERED_SECONDS = 20.0, 45.0, 60.0
"""The endless demo serves good answers first, then worse and good ones in turn."""


class Question(msgspec.Struct, frozen=True):
    app: str
    question: str
    reference: str
    context: Mapping[str, str]
    good: tuple[str, ...]
    bad: tuple[str, ...]


class DemoRecord(NamedTuple):
    key: bytes | None
    value: bytes


def load_questions() -> tuple[Question, ...]:
    text = resources.files("streams.demo").joinpath("questions.jsonl").read_bytes()
    return tuple(msgspec.json.decode(line, type=Question) for line in text.splitlines() if line.strip())


def make_record(
    questions: Sequence[Question], index: int, *, worse: bool, occurred_at: datetime
) -> DemoRecord:
    """Return event number `index`; `occurred_at` is the time of the answer, with its offset from UTC."""
    event_id = f"demo-{index:06d}"
    if index % EVERY == UNDECODABLE_AT:
        cut_off = f'{{"event_id": "{event_id}", "question": "cut off in the mid'.encode()  # its producer died
        unknown = msgspec.json.encode({"event_id": event_id, "query": "a field of another name"})
        values = (cut_off, unknown, b"\x80\x04\x95 not JSON at all \xff")
        return DemoRecord(None, values[index // EVERY % len(values)])
    lap, place = divmod(index, len(questions))
    order = sorted(range(len(questions)), key=lambda number: _share(f"order {lap} {number}"))
    question = questions[order[place]]
    model = list(MODELS)[int(_share(f"model {index}") * len(MODELS))]
    bad = worse and _share(f"bad {index}") < MODELS[model]
    answers = question.bad if bad else question.good
    digest = hashlib.sha256(event_id.encode()).hexdigest()
    event: dict[str, Any] = {
        "event_id": event_id,
        "occurred_at": occurred_at.isoformat(),
        "question": question.question,
        "answer": answers[int(_share(f"answer {index}") * len(answers))],
        "reference": question.reference,
        "context": dict(question.context),
        "trace_id": digest[:32],
        "span_id": digest[32:48],
        "labels": {
            "app": question.app,
            "tenant": list(TENANTS)[bisect(TENANT_ENDS, _share(f"tenant {index}"))],
            "model": model,
            "prompt_version": "v8" if worse else "v7",
        },
    }
    if index % EVERY == UNROUTABLE_AT:
        # A chat without reference and pages: no metric can judge it.
        del event["reference"], event["context"]
    return DemoRecord(event_id.encode(), msgspec.json.encode(event))


def _share(what: str) -> float:
    return int.from_bytes(hashlib.sha256(what.encode()).digest()[:7]) / 2**56  # in [0, 1)


def is_worse(seconds: float) -> bool:
    since = seconds - GOOD_SECONDS
    return since >= 0 and since % (WORSE_SECONDS + RECOVERED_SECONDS) < WORSE_SECONDS


def own_records(count: int | None, slower: float = 1.0) -> Iterator[DemoRecord]:
    """Yield `count` events, the second half bad; None: good and worse in turns without an end."""
    questions, begun = load_questions(), time.monotonic()
    for index in range(sys.maxsize if count is None else count):
        worse = is_worse((time.monotonic() - begun) / slower) if count is None else index * 2 >= count
        yield make_record(questions, index, worse=worse, occurred_at=datetime.now(UTC))
