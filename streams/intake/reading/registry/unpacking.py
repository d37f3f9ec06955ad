"""Decode a record in one of Confluent's wire forms to JSON."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from judge.verdict import aside
from streams.errors import DecodeError
from streams.intake.reading.beside import read_beside
from streams.intake.reading.envelope import Headers
from streams.intake.reading.registry.client import (
    FIRST_WAIT_SECONDS,
    NoSchemaError,
    Registered,
    RegistryClient,
    UnreadableError,
)
from streams.intake.reading.registry.wire_form import SchemaRef, WireForm, wire_form

MAX_SCHEMAS: Final = 1_000
"""Limit on cached schemas; the least recently used are dropped."""
MAX_REFERENCES: Final = 200
"""Limit on the references of a schema, including indirect ones."""
UNKNOWN_SECONDS: Final = 30.0
"""How long to retry a schema that the registry does not have yet."""
FORGET_SECONDS: Final = 60.0
"""Interval until a missing or unusable schema is requested again."""

_VALUES: Final = 10
"""Divisor of the maximum number of values, because payloads rarely hold more than that share."""

Read = Callable[[WireForm], Awaitable[bytes]]


class Unpacking:
    """Decodes records by the schemas of a registry.

    Args:
        client: The registry.
        unknown_seconds: How long to retry a missing schema.
        seconds: Timeout for a record with many values; above 0.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        client: RegistryClient,
        *,
        unknown_seconds: float = UNKNOWN_SECONDS,
        seconds: float = aside.DEFAULT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self._unknown_seconds = unknown_seconds
        self._seconds = seconds
        self._clock = clock
        self._readers: OrderedDict[SchemaRef, Read] = OrderedDict()
        self._refused: OrderedDict[SchemaRef, tuple[float, str]] = OrderedDict()
        self._fetching: dict[SchemaRef, asyncio.Task[Read]] = {}

    async def json(self, value: bytes | None, headers: Headers) -> bytes | None:
        """Return a record's JSON; the unchanged value if it names no schema.

        Waits while the registry does not answer.

        Raises:
            DecodeError: Its schema is missing or unusable, or it does not match the schema.
            RegistryDownError: The registry does not answer, and the client does not retry.
        """
        form = wire_form(value, headers) if value else None
        if form is None:
            return value
        read = self._readers.get(form.ref)
        if read is None:
            read = await self._reader(form.ref)
        else:
            self._readers.move_to_end(form.ref)
        try:
            return await read(form)
        except DecodeError as error:
            raise DecodeError(error.reason, f"{error.detail} ({_name(form.ref)})") from None

    async def close(self) -> None:
        """Cancel fetches and close the client."""
        for task in self._fetching.values():
            task.cancel()
        await self.client.close()

    async def _reader(self, ref: SchemaRef) -> Read:
        at, why = self._refused.get(ref, (0.0, ""))
        if why and self._clock() - at < FORGET_SECONDS:
            raise DecodeError("undecodable", why)
        task = self._fetching.get(ref)
        if task is None:
            task = self._fetching[ref] = asyncio.create_task(self._fetch(ref))
            task.add_done_callback(lambda _: self._fetching.pop(ref, None))
        # Shielded: other records may wait for the same schema.
        return await asyncio.shield(task)

    async def _fetch(self, ref: SchemaRef) -> Read:
        try:
            read = await self._made(ref)
        except (NoSchemaError, UnreadableError, ValueError) as error:
            why = f"value: {_name(ref)} " + (
                "is not known to the registry; check the producer's registry and ingest.registry.url"
                if isinstance(error, NoSchemaError)
                else f"cannot be used: {error}"
            )
            self._refused[ref] = (self._clock(), why)
            if len(self._refused) > MAX_SCHEMAS:
                self._refused.popitem(last=False)
            raise DecodeError("undecodable", why) from None
        self._readers[ref] = read
        if len(self._readers) > MAX_SCHEMAS:
            self._readers.popitem(last=False)
        return read

    async def _made(self, ref: SchemaRef) -> Read:
        found = await self._known(ref)
        references = await self._references(found)
        match found.kind:
            case "JSON":
                return _body
            case "AVRO":
                from streams.intake.reading.registry.avro import AvroSchema  # noqa: PLC0415 - an extra

                avro = AvroSchema(found.text, tuple(one.text for _, one in references))
                avro.check()
                return lambda form: self._beside(avro.size(form.body()), avro.read, form.body())
            case "PROTOBUF":
                from streams.intake.reading.registry.protobuf import ProtobufSchema  # noqa: PLC0415 - an extra

                protobuf = ProtobufSchema(found.text, tuple((name, one.text) for name, one in references))
                protobuf.check()

                async def read(form: WireForm) -> bytes:
                    path, payload = form.message()
                    return await self._beside(len(payload), protobuf.read, path, payload)

                return read
            case other:
                raise UnreadableError(f"is of kind {other[:40]!r}; supported: AVRO, JSON and PROTOBUF")

    async def _beside(self, values: int, function: Callable[..., bytes], *args: object) -> bytes:
        return await read_beside(values // _VALUES, function, *args, seconds=self._seconds)

    async def _known(self, ref: SchemaRef) -> Registered:
        """Fetch a schema; retry a missing one, which may be in replication between registry nodes."""
        deadline, wait = self._clock() + self._unknown_seconds, FIRST_WAIT_SECONDS
        while True:
            try:
                return await self.client.schema(ref)
            except NoSchemaError:
                left = deadline - self._clock()
                if left <= 0:
                    raise
                await asyncio.sleep(min(wait, left))
                wait *= 2

    async def _references(self, schema: Registered) -> list[tuple[str, Registered]]:
        """Fetch all schemas that a schema references, in order of dependency."""
        found: dict[str, Registered] = {}
        if schema.kind == "JSON":
            return []

        async def add(one: Registered, above: tuple[str, ...]) -> None:
            for name, subject, version in one.references:
                if name in found or name in above:
                    continue
                if len(found) + len(above) >= MAX_REFERENCES:
                    raise UnreadableError(f"references more than {MAX_REFERENCES} schemas")
                try:
                    named = await self.client.reference(subject, version)
                except NoSchemaError:
                    raise UnreadableError(
                        f"names {subject} version {version}, which does not exist"
                    ) from None
                await add(named, (*above, name))
                found[name] = named

        await add(schema, ())
        return list(found.items())


async def _body(form: WireForm) -> bytes:
    return form.body()


def _name(ref: SchemaRef) -> str:
    return f"schema id {ref}" if isinstance(ref, int) else f"schema GUID {ref}"
