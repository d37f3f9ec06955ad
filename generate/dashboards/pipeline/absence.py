"""No-data texts of the dashboard *Pipeline*. Pure."""

from __future__ import annotations

from typing import Final

NO_WORKER: Final = "No worker is scraped under this job"
NO_EVENTS: Final = "No events were read in this time"
