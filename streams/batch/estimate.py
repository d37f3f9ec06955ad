"""What a replay finds: the results that exist, the tasks that are left, and the effort of judging them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.evaluate.evaluator import request_tokens
from judge.metric import Metric
from schemas import RESULT, JudgeTask, Result, Scored, Usage
from streams.batch.comparison import Seen
from streams.batch.engine import Spent
from streams.batch.selection import RecordCounts
from streams.batch.tally import Tally
from streams.judging.endpoints import price_of
from streams.kafka.record import Record
from streams.settings import EndpointSettings

REPLY_TOKENS: Final = 400
"""Assumed output tokens of a reply, if no live result tells them."""
CALL_SECONDS: Final = 2.0
"""Assumed duration of a call, likewise."""


@dataclass(slots=True)
class Mean:
    """The mean effort of judging one metric, of live results with a call."""

    count: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    def add(self, output_tokens: int, seconds: float | None) -> None:
        """Add one result; `seconds` is None without a call."""
        if seconds is not None:
            self.count += 1
            self.output_tokens += output_tokens
            self.seconds += seconds


@dataclass(frozen=True, slots=True)
class Effort:
    """The estimated effort of judging; input tokens are estimated high."""

    results: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """None if a price is unknown."""
    seconds: float
    """Duration at the limits."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)

    def text(self) -> str:
        """Return the text form."""
        cost = "price not known" if self.cost_usd is None else f"${self.cost_usd:.4f}"
        minutes = self.seconds / 60
        lasts = f"{self.seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min"
        return (
            f"{self.results:,} results: about {self.input_tokens:,} input and {self.output_tokens:,} output "
            f"tokens, {cost}, {lasts if minutes < 120 else f'{minutes / 60:.1f} h'}"
        )


@dataclass(slots=True)
class Scan:
    """The tasks of a time range."""

    counted: RecordCounts = field(default_factory=RecordCounts)
    tasks: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    """Those without a result."""
    input_tokens: Counter[str] = field(default_factory=Counter)
    """Of their requests, by metric."""

    def add(self, task: JudgeTask, metric: Metric, *, done: bool) -> None:
        """Count a task; `done`: it has a result."""
        self.tasks[task.metric] += 1
        if done:
            return
        self.left[task.metric] += 1
        try:
            request = metric.prepare(task)
        except EventError:
            return
        if isinstance(request, ChatRequest):
            self.input_tokens[task.metric] += request_tokens(request)

    def text(self, replay_id: str, done: int) -> str:
        """Return the text form."""
        passed = ", ".join(f"{count:,} {reason}" for reason, count in self.counted.passed.most_common())
        tasks = ", ".join(f"{count:,} {name}" for name, count in self.tasks.items()) or "nothing to judge"
        again = f"; {done:,} exist already" if done else ""
        return (
            f"{replay_id}: {self.counted.records:,} records, {self.counted.sampled:,} events to judge"
            f"{f' ({passed})' if passed else ''}: {tasks}{again}"
        )


def estimate(
    scan: Scan,
    live: Mapping[str, Mean],
    voters: Mapping[str, Sequence[EndpointSettings]],
    *,
    in_flight: int,
    per_second: float | None = None,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
) -> Effort:
    """Effort the effort of the tasks without a result, at these limits; None is no limit.

    `voters` is the endpoint of each call for one answer of a metric: none for code, several for a panel.
    """
    used, calls, cost, waited = Usage(), 0, 0.0, 0.0
    known = True
    for metric, count in scan.left.items():
        mean = live.get(metric) or Mean()
        own = Usage(
            input_tokens=scan.input_tokens[metric],
            output_tokens=round(count * (mean.output_tokens / mean.count if mean.count else REPLY_TOKENS))
            if scan.input_tokens[metric]
            else 0,
        )
        for endpoint in voters[metric]:
            price = price_of(endpoint)
            known = known and price is not None
            cost += 0.0 if price is None else price.cost_usd(own)
            used = Usage(
                input_tokens=used.input_tokens + own.input_tokens,
                output_tokens=used.output_tokens + own.output_tokens,
            )
            calls += count
            waited += count * (mean.seconds / mean.count if mean.count else CALL_SECONDS)
    results = scan.left.total()
    seconds = max(
        waited / in_flight,
        results / per_second if per_second else 0.0,
        60 * calls / requests_per_minute if requests_per_minute else 0.0,
        60 * (used.input_tokens + used.output_tokens) / tokens_per_minute if tokens_per_minute else 0.0,
    )
    return Effort(results, used.input_tokens, used.output_tokens, cost if known else None, round(seconds, 1))


class _Place(msgspec.Struct):
    topic: str
    partition: int
    offset: int


class _Head(msgspec.Struct):
    """The fields that decide whether a result is used."""

    result_id: str
    event_id: str
    metric: str
    source: _Place
    replay_id: str | None = None


_HEAD: Final = msgspec.json.Decoder(_Head)

Wanted = Callable[[str, _Place], bool]
"""Return whether a live result's event, given its id and place, is in the time range."""


@dataclass(slots=True)
class EarlierResults:
    """Earlier results."""

    metrics: Collection[str]
    live: dict[str, dict[str, Seen]] = field(default_factory=dict)
    effort: dict[str, Mean] = field(default_factory=dict)
    """The mean effort of live results, by metric."""
    now: dict[str, dict[str, Seen]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)
    """All results published by it."""
    spent: Spent = field(default_factory=Spent)

    async def read(self, results: AsyncIterable[Record], replay_id: str, wanted: Wanted) -> None:
        """Add records of the results topic."""
        async for record in results:
            try:
                head = _HEAD.decode(record.value or b"")
            except (msgspec.MsgspecError, ValueError, RecursionError):
                continue
            if head.metric not in self.metrics:
                continue
            ours = head.replay_id == replay_id
            if not ours and (head.replay_id is not None or not wanted(head.event_id, head.source)):
                continue
            try:
                result = RESULT.validate_json(record.value or b"")
            except ValidationError:
                continue  # of a later version
            if ours:
                if result.result_id not in self.done:
                    self.spent.add(result)
                self.add(result)
            else:
                self._add_live(result)

    def add(self, result: Result) -> None:
        """Add a result of this replay; a repeated one is ignored."""
        if result.result_id in self.done:
            return
        self.done.add(result.result_id)
        self.tally.add(result)
        if isinstance(result, Scored):
            self.now.setdefault(result.metric, {})[result.event_id] = Seen.of(result)

    def _add_live(self, result: Result) -> None:
        if isinstance(result, Scored):
            self.live.setdefault(result.metric, {})[result.event_id] = Seen.of(result)
        if not (result.judge is not None and result.judge.cached):
            mean = self.effort.setdefault(result.metric, Mean())
            mean.add(result.usage.output_tokens, result.times.judge_seconds)
