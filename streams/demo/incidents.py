"""The incidents in the demo's store."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from judge.metrics.registry import score_ranges
from streams.errors import StoreError
from streams.settings import StoreSettings
from streams.store import charts
from streams.store.database import Reader
from streams.store.query import Filter
from streams.store.views.incidents import known_incidents
from streams.store.views.report import headline, report_on

PATIENCE_SECONDS = 10.0
"""How long to wait until the store has all records of the topics."""


async def told_incidents(store: StoreSettings, *, results: int, alerts: int) -> list[dict[str, Any]]:
    """Return id, alerts and headline of each incident, oldest first; nothing if the store lags behind.

    Args:
        store: The store's path.
        results: Number of results that it must have.
        alerts: Number of alerts that it must have.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    reader = Reader(store.path)
    try:
        while time.monotonic() < deadline:
            found = await asyncio.to_thread(_told, reader, store, results, alerts)
            if found is not None:
                return found
            await asyncio.sleep(0.1)
    except StoreError:
        return []
    return []


def _told(reader: Reader, store: StoreSettings, results: int, alerts: int) -> list[dict[str, Any]] | None:
    with reader.snapshot() as snapshot:
        row = snapshot.row("SELECT count(*) FROM alerts")
        if row is None or row[0] < alerts or charts.count(snapshot, Filter()) < results:
            return None
        return [
            {
                "incident_id": one.incident_id,
                "alerts": len(one.drops),
                "headline": headline(
                    report_on(snapshot, one, ranges=score_ranges(), product_labels=store.product_labels)
                ),
            }
            for one in reversed(known_incidents(snapshot))
        ]
