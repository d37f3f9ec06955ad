"""From a record to an event: envelopes, mapping, defaults, checks."""

from __future__ import annotations

from streams.intake.reading.decode import Ingest, SamplingFields

__all__ = ["Ingest", "SamplingFields"]
