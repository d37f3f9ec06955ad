"""Intake of records whose schema is in a registry."""

from __future__ import annotations

from typing import Protocol

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.agent import Intake
from streams.intake.reading import Ingest
from streams.intake.reading.envelope import Headers
from streams.intake.reading.registry.unpacking import Unpacking
from streams.kafka.letters import Incoming


class Readable(Protocol):
    """The part of a record that is read."""

    @property
    def value(self) -> bytes | None:
        """The raw value."""

    @property
    def headers(self) -> Headers:
        """Name and raw value, in order."""

    @property
    def timestamp(self) -> float | None:
        """Seconds since the epoch."""


async def read_event(record: Readable, unpacking: Unpacking | None, ingest: Ingest) -> QAEvent:
    """Read the event of a record.

    Args:
        record: The record.
        unpacking: Reads it by its schema, where there is a registry.
        ingest: Makes an event of its JSON.

    Raises:
        DecodeError: It is no event.
    """
    value = record.value
    too_large = value is not None and len(value) > ingest.max_event_bytes
    if unpacking is not None and not too_large:
        value = await unpacking.json(value, record.headers)
    milliseconds = None if record.timestamp is None else round(record.timestamp * 1000)
    return ingest.decode(value, record.headers, milliseconds)


class UnpackedIntake:
    """Reads records by their schemas; an outage of the registry holds them.

    Args:
        unpacking: Reads by schema.
        ingest: Makes events of JSON.
        intake: Takes the events.
    """

    def __init__(self, unpacking: Unpacking, ingest: Ingest, intake: Intake) -> None:
        self._unpacking = unpacking
        self._ingest = ingest
        self._intake = intake

    async def handle(self, record: Incoming) -> None:
        """Turn one record into tasks, a dead letter or nothing."""
        try:
            event = await read_event(record, self._unpacking, self._ingest)
        except DecodeError as error:
            await self._intake.refuse(record, error)
        else:
            await self._intake.take(record, event)

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Set a record aside that met an error nobody foresaw."""
        await self._intake.on_surprise(record, error)
