"""Accounts for every event from the topics alone, as an independent check of the worker. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from schemas import Alert, DeadLetter, Failed, JudgeTask, Scored, Source, Unscored
from streams.monitoring.statistics.estimators import WeightedSums

_Place = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Both sides of the accounting identity.

    Attributes:
        read: Records on the events topic.
        undecodable: Dead letters of events that could not be read, including oversized ones.
        unroutable: Dead letters of events that match no metric's conditions.
        skipped: Events not sampled, by the worker's own count.
        sampled: Events with at least one task.
        lost: Events without task or dead letter that were not skipped either; negative if some were counted
            twice.
        tasks: Distinct tasks.
        task_dead_letters: Dead letters of tasks.
        scored: Distinct results with a number.
        unscored: Distinct results without one, because there was nothing to judge.
        failed: Distinct results of failed judgements.
        in_flight: Tasks without result or dead letter.
    """

    read: int
    undecodable: int
    unroutable: int
    skipped: int
    sampled: int
    lost: int
    tasks: int
    task_dead_letters: int
    scored: int
    unscored: int
    failed: int
    in_flight: int

    @property
    def holds(self) -> bool:
        """Whether every event and every task has exactly one outcome."""
        return self.lost == 0 and self.in_flight == 0


@dataclass(slots=True)
class Means:
    """Weighted sums before and after the half-way event."""

    before: WeightedSums = field(default_factory=WeightedSums)
    after: WeightedSums = field(default_factory=WeightedSums)


class Accounts:
    """Counts the records of all topics, in any order, ignoring repeats.

    Args:
        events_topic: The events topic; dead letters of other topics are tasks.
    """

    def __init__(self, events_topic: str) -> None:
        self._events_topic = events_topic
        self._positions: dict[_Place, int] = {}
        self._aside: dict[_Place, str] = {}
        self._sampled: set[_Place] = set()
        self._tasks: set[str] = set()
        self._tasks_aside: set[_Place] = set()
        self._results: dict[str, Scored | Unscored | Failed] = {}
        self.alerts: list[Alert] = []

    def add_event(self, partition: int, offset: int, position: int) -> None:
        """Count a record of the events topic; its position is the number of events produced before it."""
        self._positions[self._events_topic, partition, offset] = position

    def add_task(self, task: JudgeTask) -> None:
        """Count a task."""
        self._sampled.add(_place(task.source))
        self._tasks.add(task.result_id)

    def add_result(self, result: Scored | Unscored | Failed) -> bool:
        """Count a result; return False for a repeat."""
        is_new = result.result_id not in self._results
        self._results[result.result_id] = result
        return is_new

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """Count a dead letter."""
        place = (letter.topic, letter.partition, letter.offset)
        if letter.topic == self._events_topic:
            self._aside[place] = letter.reason
        else:
            self._tasks_aside.add(place)

    def add_alert(self, alert: Alert) -> None:
        """Count an alert; a repeated one once."""
        if all(known.alert_id != alert.alert_id for known in self.alerts):
            self.alerts.append(alert)

    @property
    def read(self) -> int:
        """Records of the events topic so far."""
        return len(self._positions)

    @property
    def sampled(self) -> int:
        """Distinct events with a task so far."""
        return len(self._sampled)

    @property
    def dead_letters(self) -> int:
        """Distinct dead letters so far."""
        return len(self._aside) + len(self._tasks_aside)

    @property
    def drops(self) -> int:
        """Alerts of a drop."""
        return sum(alert.kind == "drop" for alert in self.alerts)

    def balance(self, skipped: int) -> Balance:
        """Return the balance of events and tasks.

        Args:
            skipped: Events not sampled, as the worker counted them.
        """
        statuses = Counter(result.status for result in self._results.values())
        unroutable = sum(reason == "unroutable" for reason in self._aside.values())
        undecodable = len(self._aside) - unroutable
        return Balance(
            read=self.read,
            undecodable=undecodable,
            unroutable=unroutable,
            skipped=skipped,
            sampled=len(self._sampled),
            lost=self.read - undecodable - unroutable - skipped - len(self._sampled),
            tasks=len(self._tasks),
            task_dead_letters=len(self._tasks_aside),
            scored=statuses["scored"],
            unscored=statuses["unscored"],
            failed=statuses["failed"],
            in_flight=len(self._tasks) - len(self._results) - len(self._tasks_aside),
        )

    def results(self) -> Iterator[Scored | Unscored | Failed]:
        """Iterate over the distinct results in order of first arrival."""
        yield from self._results.values()

    def means(self, half_way: float) -> Mapping[str, Means]:
        """Return each metric's weighted sums on both sides of a position.

        Args:
            half_way: First position that counts as after.
        """
        means: dict[str, Means] = {}
        for result in self._results.values():
            pair = means.setdefault(result.metric, Means())
            if not isinstance(result, Scored):
                continue
            probability = result.sampling.probability
            if self._positions.get(_place(result.source), 0) < half_way:
                pair.before = pair.before.add(result.amount, probability)
            else:
                pair.after = pair.after.add(result.amount, probability)
        return dict(sorted(means.items()))


def _place(source: Source) -> _Place:
    return source.topic, source.partition, source.offset
