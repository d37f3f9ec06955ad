"""The demo's events: a fictitious product answers questions, first well and then worse; and their sending.

Event n depends on n alone: two runs have the same answers for the same tenants.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import msgspec

from streams.demo.accounting import POSITION_HEADER

MODELS: Mapping[str, float] = {"atlas-large": 0.65, "atlas-small": 0.8, "borealis-mini": 0.95}
"""The product's models, with their share of bad answers after the bad deployment."""
TENANTS: Mapping[str, float] = {"gold": 0.1, "silver": 0.3, "bronze": 0.6}
"""The product's customers, with their share of the traffic."""
GOOD_PROMPT_VERSION = "v7"
WORSE_PROMPT_VERSION = "v8"

EVERY = 100
"""One in this many events is undecodable and one unroutable."""
UNDECODABLE_AT = 37
UNROUTABLE_AT = 73

MAX_UNFINISHED = 120
"""Maximum records waiting for the worker; the bound keeps verdicts in the order of events."""
_POLL_SECONDS = 0.02


class Question(msgspec.Struct, frozen=True):
    """A question with answers of known quality."""

    app: str
    question: str
    reference: str
    context: Mapping[str, str]
    good: tuple[str, ...]
    bad: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """The next record of the events topic."""

    key: bytes | None
    value: bytes


def load_questions() -> tuple[Question, ...]:
    """Read the packaged questions."""
    text = resources.files("streams.demo").joinpath("questions.jsonl").read_bytes()
    return tuple(msgspec.json.decode(line, type=Question) for line in text.splitlines() if line.strip())


def make_record(
    questions: Sequence[Question], index: int, *, worse: bool, occurred_at: datetime
) -> DemoRecord:
    """Return event number `index`; `occurred_at` is the time of the answer, with its offset from UTC."""
    event_id = f"demo-{index:06d}"
    if index % EVERY == UNDECODABLE_AT:
        return _undecodable(index, event_id)
    event = _event(questions, index, event_id, worse=worse, occurred_at=occurred_at)
    if index % EVERY == UNROUTABLE_AT:
        # A chat without reference and pages: no metric can judge it.
        del event["reference"], event["context"]
    return DemoRecord(event_id.encode(), _json(event))


def _event(
    questions: Sequence[Question], index: int, event_id: str, *, worse: bool, occurred_at: datetime
) -> dict[str, Any]:
    lap, place = divmod(index, len(questions))
    order = sorted(range(len(questions)), key=lambda number: _share(f"order {lap} {number}"))
    question = questions[order[place]]
    model = list(MODELS)[int(_share(f"model {index}") * len(MODELS))]
    bad = worse and _share(f"bad {index}") < MODELS[model]
    answers = question.bad if bad else question.good
    return {
        "event_id": event_id,
        "occurred_at": occurred_at.isoformat(),
        "question": question.question,
        "answer": answers[int(_share(f"answer {index}") * len(answers))],
        "reference": question.reference,
        "context": dict(question.context),
        "trace_id": hashlib.sha256(event_id.encode()).hexdigest()[:32],
        "span_id": hashlib.sha256(event_id.encode()).hexdigest()[32:48],
        "labels": {
            "app": question.app,
            "tenant": _tenant(_share(f"tenant {index}")),
            "model": model,
            "prompt_version": WORSE_PROMPT_VERSION if worse else GOOD_PROMPT_VERSION,
        },
    }


def _undecodable(index: int, event_id: str) -> DemoRecord:
    values = (
        b'{"event_id": "'
        + event_id.encode()
        + b'", "question": "cut off in the mid',  # a producer was killed
        _json({"event_id": event_id, "query": "a field of another name"}),
        b"\x80\x04\x95 not JSON at all \xff",
    )
    return DemoRecord(None, values[index // EVERY % len(values)])


def _tenant(share: float) -> str:
    for tenant, part in TENANTS.items():
        share -= part
        if share < 0:
            return tenant
    return next(iter(TENANTS))


def _share(what: str) -> float:
    """Return a number in [0, 1) derived from a text."""
    return int.from_bytes(hashlib.sha256(what.encode()).digest()[:7]) / 2**56


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Cycle:
    """When the endless demo serves worse answers: first good ones, then alternating."""

    good_seconds: float = 20.0
    worse_seconds: float = 45.0
    recovered_seconds: float = 60.0

    def is_worse(self, seconds: float) -> bool:
        """Return whether answers are worse, this time after the first event."""
        since = seconds - self.good_seconds
        return since >= 0 and since % (self.worse_seconds + self.recovered_seconds) < self.worse_seconds


def bounded_records(questions: tuple[Question, ...], count: int) -> Iterator[DemoRecord]:
    """Yield `count` events, the second half from the bad deployment."""
    for index in range(count):
        yield make_record(questions, index, worse=index * 2 >= count, occurred_at=datetime.now(UTC))


def endless_records(
    questions: tuple[Question, ...], cycle: Cycle, seconds: Callable[[], float]
) -> Iterator[DemoRecord]:
    """Yield events endlessly, alternating good and worse; `seconds` is the time since the first event."""
    index = 0
    while True:
        yield make_record(questions, index, worse=cycle.is_worse(seconds()), occurred_at=datetime.now(UTC))
        index += 1


def file_records(lines: Iterable[bytes]) -> Iterator[DemoRecord]:
    """Yield the lines of a file unchanged, with the event id as key if it can be read."""
    for line in lines:
        yield DemoRecord(_key(line), line)


def _key(line: bytes) -> bytes | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    key = value.get("event_id") if isinstance(value, dict) else None
    return key.encode() if isinstance(key, str) and key else None


class Feed:
    """Sends records one after the other.

    Args:
        rate: Events per second; None: as fast as the worker.
    """

    def __init__(
        self,
        producer: Any,
        topic: str,
        *,
        unfinished: Callable[[int], int],
        rate: float | None,
        head_start: int = 0,
    ) -> None:
        self.sent = 0
        self.done = False
        self._producer = producer
        self._topic = topic
        self._unfinished = unfinished
        self._rate = rate
        self._head_start = head_start

    async def run(self, records: Iterable[DemoRecord]) -> None:
        """Send all records; return when the broker has acknowledged each."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        confirmations: set[asyncio.Future[Any]] = set()
        for record in records:
            while self._unfinished(self.sent) >= MAX_UNFINISHED:  # noqa: ASYNC110 - progress is polled, too
                await asyncio.sleep(_POLL_SECONDS)
            if self._rate is not None and self.sent >= self._head_start:
                due = started + (self.sent - self._head_start) / self._rate
                await asyncio.sleep(max(due - loop.time(), 0.0))
            confirmation = await self._producer.send(
                self._topic,
                record.value,
                key=record.key,
                headers=[(POSITION_HEADER, str(self.sent).encode())],
            )
            confirmations.add(confirmation)
            confirmation.add_done_callback(confirmations.discard)
            self.sent += 1
        if confirmations:
            await asyncio.gather(*confirmations)
        self.done = True
