"""Read earlier results: live ones of the same events, and those that this replay has published."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from pydantic import ValidationError

from schemas import RESULT, Failed, Scored, Unscored
from streams.judging.files.comparison import Seen
from streams.judging.files.summary import Spending
from streams.kafka.stretch import PastRecord
from streams.worker.replay.estimate import Sampled

MOST_SAMPLED: Final = 2_000
"""Maximum samples per metric for an estimate."""


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
class History:
    """Earlier results.

    Args:
        fingerprints: The current evaluator of each metric.
        live: Scores of the live stream, by metric and event id.
        took: Effort of results by these evaluators, by metric and event id; limited in number.
        now: Scores published by this replay, by metric and event id.
        done: Ids of all results published by it.
        outcomes: Their number by metric and status.
        spent: Their tokens and cost.
        priced: Number of those with a known cost.
        usd: The sum of these costs.
    """

    fingerprints: Mapping[str, str]
    live: dict[str, dict[str, Seen]] = field(default_factory=dict)
    took: dict[str, dict[str, Sampled]] = field(default_factory=dict)
    now: dict[str, dict[str, Seen]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    spent: Spending = field(default_factory=Spending)
    priced: int = 0
    usd: float = 0.0

    async def read(self, results: AsyncIterable[PastRecord], replay_id: str, wanted: Wanted) -> None:
        """Add records of the results topic.

        Args:
            results: The records.
            replay_id: This replay.
            wanted: Selects the events whose live results are added.
        """
        async for record in results:
            try:
                head = _HEAD.decode(record.value or b"")
            except (msgspec.MsgspecError, ValueError, RecursionError):
                continue
            if head.metric not in self.fingerprints:
                continue
            ours = head.replay_id == replay_id
            if not ours and (head.replay_id is not None or not wanted(head.event_id, head.source)):
                continue
            try:
                result = RESULT.validate_json(record.value or b"")
            except ValidationError:
                continue  # of a later version
            if ours:
                self.add(result)
            else:
                self._add_live(result)

    def add(self, result: Scored | Unscored | Failed) -> None:
        """Add a result of this replay; a repeated one is ignored."""
        if result.result_id in self.done:
            return
        self.done.add(result.result_id)
        statuses = self.outcomes.setdefault(result.metric, {})
        statuses[result.status] = statuses.get(result.status, 0) + 1
        self.spent.add(result.usage, result.cost_usd)
        if result.cost_usd is not None:
            self.priced += 1
            self.usd += result.cost_usd
        self._add_sample(result)
        if isinstance(result, Scored):
            self.now.setdefault(result.metric, {})[result.event_id] = Seen.of(result)

    def _add_live(self, result: Scored | Unscored | Failed) -> None:
        if isinstance(result, Scored):
            self.live.setdefault(result.metric, {})[result.event_id] = Seen.of(result)
        if result.evaluator.fingerprint == self.fingerprints[result.metric]:
            self._add_sample(result)

    def _add_sample(self, result: Scored | Unscored | Failed) -> None:
        took = self.took.setdefault(result.metric, {})
        if len(took) < MOST_SAMPLED and not (result.judge is not None and result.judge.cached):
            took[result.event_id] = Sampled.of(result, 0)
