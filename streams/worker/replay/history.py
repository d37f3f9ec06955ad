"""What was judged before: live results of the same events, and what this replay has published already."""

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
"""Results of a metric that an estimate rests on at most."""


class _Place(msgspec.Struct):
    topic: str
    partition: int
    offset: int


class _Head(msgspec.Struct):
    """What says whether a result is of interest."""

    result_id: str
    event_id: str
    metric: str
    source: _Place
    replay_id: str | None = None


_HEAD: Final = msgspec.json.Decoder(_Head)

Wanted = Callable[[str, _Place], bool]
"""Says whether a live result's event, by id and place, is in the stretch."""


@dataclass(slots=True)
class History:
    """Results that exist already.

    Args:
        fingerprints: The evaluator of each metric that is judged now.
        live: Scores of the live stream, by metric and event id.
        took: What judging took where this evaluator judged, by metric and event id; some of it.
        now: Scores that this replay has published, by metric and event id.
        done: Ids of all results that it has published.
        outcomes: Their number by metric and status.
        spent: What they took.
        priced: Number of those whose cost is known.
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
        """Take in the records of the results' topic.

        Args:
            results: The records.
            replay_id: This replay.
            wanted: Which events' live results count.
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
        """Take in a result of this replay; one that is known counts once."""
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
