"""Accounts for every event and alert from the topics alone, as an independent check of the worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from judge.metrics.registry import score_ranges
from schemas import RESULT, Alert, DeadLetter, JudgeTask, Result, Scored, Source, Usage
from streams.batch.tally import TokenCost
from streams.errors import StoreError
from streams.kafka.topics.table import message_of
from streams.monitoring.statistics.estimators import WeightedSums
from streams.settings.broker import TopicSettings
from streams.settings.outputs import StoreSettings
from streams.store.database import read_store
from streams.store.query import Filter, Filtered
from streams.store.views.incidents import Incident, group, title
from streams.store.views.report import Report, card, headline, report_on

_log = logging.getLogger(__name__)

POSITION_HEADER: Final = "demo-position"
"""Number of events produced before this one, in decimal."""
REPORT_SECONDS: Final = 3.0
"""Interval of reports on an open incident, which read thousands of results."""
_Place = tuple[str, int, int]


class Accounts:
    """Counts the records of all topics, in any order, ignoring repeats."""

    def __init__(self, topics: TopicSettings, started: float | None = None) -> None:
        self._topics = topics
        self._started = time.monotonic() if started is None else started
        self._positions: dict[_Place, int] = {}
        self._aside: dict[_Place, str] = {}
        self._sampled: set[_Place] = set()
        self._tasks: set[str] = set()
        self._tasks_aside: set[_Place] = set()
        self.results: dict[str, Result] = {}
        self._statuses: Counter[str] = Counter()
        self.alerts: dict[str, Alert] = {}
        self.spent = TokenCost()
        self.first_verdict_seconds: float | None = None

    async def run(self, consumer: Any) -> None:
        async for record in consumer:
            self.take(record)

    def take(self, record: Any) -> None:
        try:
            match message_of(self._topics, record.topic):
                case "qa_event":
                    position = int(dict(record.headers).get(POSITION_HEADER, b"0"))
                    self._positions[record.topic, record.partition, record.offset] = position
                case "result":
                    self.add(RESULT.validate_json(record.value))
                case "dead_letter":
                    self.add(DeadLetter.model_validate_json(record.value))
                case "alert":
                    self.add(Alert.model_validate_json(record.value))
                case "judge_task":
                    self.add(JudgeTask.model_validate_json(record.value))
        except ValidationError:
            # An unreadable record is not counted, so the accounting identity fails and shows the fault.
            _log.exception("%s %s@%s has an unknown format", record.topic, record.partition, record.offset)

    def add(self, message: JudgeTask | Result | DeadLetter | Alert) -> None:
        match message:
            case JudgeTask():
                self._sampled.add(_place(message.source))
                self._tasks.add(message.result_id)
            case DeadLetter(topic=self._topics.events):
                self._aside[_place(message)] = message.reason
            case DeadLetter():
                self._tasks_aside.add(_place(message))
            case Alert():
                self.alerts.setdefault(message.alert_id, message)
            case _ if message.result_id not in self.results:
                self._add_result(message)

    def _add_result(self, result: Result) -> None:
        self.results[result.result_id] = result
        self._statuses[result.status] += 1
        if self.first_verdict_seconds is None:
            self.first_verdict_seconds = time.monotonic() - self._started
        # The unknown cost of a call without a reply would hide the cost of all others.
        unanswered = result.status == "failed" and result.usage == Usage()
        if result.judge is not None and not result.judge.cached and not unanswered:
            self.spent.add(result.usage, result.cost_usd)

    @property
    def dead_letters(self) -> int:
        return len(self._aside) + len(self._tasks_aside)

    def balance(self, skipped: int) -> dict[str, int]:
        """Return both sides of the accounting identity, which holds if nothing is lost or in flight."""
        read, sampled = len(self._positions), len(self._sampled)
        unroutable = sum(reason == "unroutable" for reason in self._aside.values())
        return {
            "read": read,
            "undecodable": len(self._aside) - unroutable,
            "unroutable": unroutable,
            "skipped": skipped,
            "sampled": sampled,
            "lost": read - len(self._aside) - skipped - sampled,
            "tasks": len(self._tasks),
            "task_dead_letters": len(self._tasks_aside),
            **{name: self._statuses[name] for name in ("scored", "unscored", "failed")},
            "in_flight": len(self._tasks) - len(self.results) - len(self._tasks_aside),
        }

    def halves(self, metric: str, half_way: float) -> tuple[WeightedSums, WeightedSums]:
        sides: tuple[list[Scored], list[Scored]] = [], []
        for result in self.results.values():
            if isinstance(result, Scored) and result.metric == metric:
                sides[self._positions.get(_place(result.source), 0) >= half_way].append(result)
        before, after = ([(one.amount, one.sampling.probability) for one in side] for side in sides)
        return WeightedSums.of(before), WeightedSums.of(after)


def _place(source: Source | DeadLetter) -> _Place:
    return source.topic, source.partition, source.offset


@dataclass(slots=True)
class Incidents:
    """The incidents of the alerts, each with a report of the store, which knows causes."""

    accounts: Accounts
    store: StoreSettings
    page: str | None = None
    """The worker's page with the explorer; None before it listens."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=score_ranges)
    reports: dict[str, Report] = field(default_factory=dict)

    @property
    def all(self) -> Sequence[Incident]:
        return group(self.accounts.alerts.values())

    def card(self, incident: Incident) -> Sequence[str]:
        link = None if self.page is None else f"{self.page}/explore/incident/{incident.incident_id}"
        return card(incident, self.reports.get(incident.incident_id), link)

    def headline(self, incident: Incident) -> str:
        report = self.reports.get(incident.incident_id)
        return title(incident) if report is None else headline(incident, report)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            if latest := self.all[-1:]:
                await asyncio.to_thread(self._report, latest)

    async def settle(self, patience_seconds: float) -> None:
        incidents, deadline = self.all, time.monotonic() + patience_seconds
        while incidents and time.monotonic() < deadline:
            if await asyncio.to_thread(self._report, incidents, len(self.accounts.results)):
                return
            await asyncio.sleep(0.1)

    def _report(self, incidents: Sequence[Incident], results: int = 0) -> bool:
        """Report on incidents; return False if the store cannot be read or has fewer results."""
        labels = self.store.product_labels
        with suppress(StoreError), read_store(self.store.path) as snapshot:
            if not results or Filtered(snapshot, Filter()).count() >= results:
                for one in incidents:
                    report = report_on(snapshot, one, ranges=self.ranges, product_labels=labels)
                    self.reports[one.incident_id] = report
                return True
        return False
