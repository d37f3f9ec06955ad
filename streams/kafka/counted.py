"""Remember counted results, so that a redelivered result is not counted twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from aiokafka.errors import KafkaError

from schemas import Failed, Scored, Unscored
from streams.telemetry.instruments import Metrics

_log = structlog.stdlib.get_logger(__name__)

REMEMBERED: Final = 50_000
"""Ids per generation, of two: the latest 50,000 to 100,000 results are remembered, in at most 10 MB."""

LEARN_SECONDS: Final = 15.0
"""Timeout of the lookup of another worker's results, during which results wait to be counted."""
MOST_WAITING: Final = 20_000
"""Results that wait during a lookup; further ones are counted at once."""

Place = tuple[int, int]
"""Partition and offset on the scores topic."""


class CountedResults:
    """The latest result ids, in bounded memory.

    Args:
        remembered: Minimum number of ids remembered; at least 1.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._young: set[int] = set()
        self._old: set[int] = set()

    def add(self, result_id: str) -> bool:
        """Remember a result; return False if it was remembered before."""
        short = hash(result_id)
        if short in self._young or short in self._old:
            return False
        if len(self._young) >= self._remembered:
            self._old, self._young = self._young, set()
        self._young.add(short)
        return True


class OnceCounter:
    """Counts each result once, across workers."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._seen = CountedResults()
        self._learning = 0
        self._waiting: list[tuple[Scored | Unscored | Failed, Place | None]] = []

    def observe(self, result: Scored | Unscored | Failed, place: Place | None) -> None:
        """Count a written result; during a lookup, count it when the lookup ends."""
        if self._learning and len(self._waiting) < MOST_WAITING:
            self._waiting.append((result, place))
        else:
            self._count(result)

    def _count(self, result: Scored | Unscored | Failed) -> None:
        if self._seen.add(result.result_id):
            self._metrics.observe_result(result)
        else:
            self._metrics.count_repeated(result.metric)

    async def learn(self, read: Callable[[], Awaitable[Iterable[tuple[Place, str]]]]) -> None:
        """Read which results were written before."""
        self._learning += 1
        try:
            found = await asyncio.wait_for(read(), LEARN_SECONDS)
            own = {place for _, place in self._waiting}
            for place, result_id in found:
                if place not in own:
                    self._seen.add(result_id)
        except (KafkaError, TimeoutError, OSError) as error:
            _log.warning("the latest results cannot be read; some may count twice", error=repr(error))
        finally:
            self._learning -= 1
            if not self._learning:
                waiting, self._waiting = self._waiting, []
                for result, _ in waiting:
                    self._count(result)
