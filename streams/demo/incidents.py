"""The incidents: from the alerts at once, with their causes as soon as the store has the results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from judge.metrics.registry import score_ranges
from streams.demo.accounting import Accounts
from streams.errors import StoreError
from streams.settings import StoreSettings
from streams.store import verdicts
from streams.store.database import StoreReader
from streams.store.query import Filter
from streams.store.views.card import card
from streams.store.views.incidents import Incident, group, title
from streams.store.views.report import IncidentReport, headline, report_on

REPORT_SECONDS: Final = 3.0
"""Interval of reports on an open incident, which read thousands of results."""


@dataclass(slots=True)
class Incidents:
    """Keeps the report of each incident up to date."""

    accounts: Accounts
    store: StoreSettings
    page: str | None = None
    """The worker's page with the explorer; None before it listens."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=score_ranges)
    """Lowest and highest score of each metric."""
    reports: dict[str, IncidentReport] = field(default_factory=dict)

    @property
    def all(self) -> Sequence[Incident]:
        """The incidents, oldest first."""
        return group(self.accounts.alerts)

    def card(self, incident: Incident) -> Sequence[str]:
        """Return the lines on an incident."""
        link = None if self.page is None else f"{self.page}/explore/incident/{incident.incident_id}"
        return card(incident, self.reports.get(incident.incident_id), link)

    def headline(self, incident: Incident) -> str:
        """Return one line, with the cause if it is known."""
        report = self.reports.get(incident.incident_id)
        return title(incident) if report is None else headline(report)

    async def run(self) -> None:
        """Report on the latest incident while it is open, until cancelled."""
        alerts = 0
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            latest = self.all[-1:]
            if latest and (latest[0].ended_at is None or len(self.accounts.alerts) != alerts):
                alerts = len(self.accounts.alerts)
                await asyncio.to_thread(self._report, latest)

    async def settle(self, patience_seconds: float) -> None:
        """Report on every incident, as soon as the store has all results; give up after a while."""
        incidents, deadline = self.all, time.monotonic() + patience_seconds
        while incidents and time.monotonic() < deadline:
            if await asyncio.to_thread(self._report, incidents, len(self.accounts.results)):
                return
            await asyncio.sleep(0.1)

    def _report(self, incidents: Sequence[Incident], results: int = 0) -> bool:
        """Report on incidents; return False if the store cannot be read or has fewer results."""
        try:
            with StoreReader(self.store.path).snapshot() as snapshot:
                if results and verdicts.count(snapshot, Filter()) < results:
                    return False
                for one in incidents:
                    self.reports[one.incident_id] = report_on(
                        snapshot, one, ranges=self.ranges, product_labels=self.store.product_labels
                    )
        except StoreError:
            return False
        return True
