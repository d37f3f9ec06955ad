"""Read events from records: envelopes, mapping, defaults, checks."""

from __future__ import annotations

from streams.intake.reading.decode import Ingest, SamplingFields

__all__ = ["Ingest", "SamplingFields"]
