"""Fetch schemas from a registry with Confluent's REST API, also of Apicurio, Karapace and Redpanda."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from random import uniform
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import orjson
import structlog

from streams.intake.reading.registry.wire_form import SchemaRef

_log = structlog.stdlib.get_logger(__name__)

MAX_SCHEMA_BYTES: Final = 8 * 1024 * 1024
FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 30.0
CALLS: Final = 8
"""Maximum concurrent requests."""


class NoSchemaError(Exception):
    """The registry does not have the schema."""


class UnreadableError(Exception):
    """The registry's response is unusable, and a retry would not help."""


class RegistryDownError(Exception):
    """The registry does not answer, or refuses access."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema in the registry.

    Args:
        kind: AVRO, JSON or PROTOBUF.
        text: The schema; for Protobuf the serialized file descriptor in base64, if the registry provides it.
        references: Name, subject and version of each schema that it references.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...]


class RegistryClient:
    """Fetches schemas.

    Args:
        url: The registry.
        auth: Authorization header; None for none.
        tls: TLS context; None for the system's authorities.
        timeout_seconds: Timeout of one request.
        patient: Whether to retry during an outage; otherwise raise.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_seconds: float = 10,
        patient: bool = True,
    ) -> None:
        self.trouble: str | None = None
        """Why the registry is unavailable; None if it is available."""
        self._url = url
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if auth is not None:
            self._headers["Authorization"] = auth
        self._tls = tls
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._patient = patient
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(CALLS)

    async def schema(self, ref: SchemaRef) -> Registered:
        """Fetch a schema by id or GUID.

        Raises:
            NoSchemaError: It does not exist.
            UnreadableError: The response is not a schema.
            RegistryDownError: The registry does not answer, and the client does not retry.
        """
        path = f"/schemas/ids/{ref}" if isinstance(ref, int) else f"/schemas/guids/{ref}"
        return await self._schema(path)

    async def reference(self, subject: str, version: int) -> Registered:
        """Fetch a referenced schema, as `schema` does."""
        return await self._schema(f"/subjects/{quote(subject, safe='')}/versions/{version}")

    async def kinds(self) -> list[str]:
        """Return the supported kinds of schemas; use it to check that the registry answers."""
        found = await self._get("/schemas/types")
        return [str(one) for one in found] if isinstance(found, list) else []

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _schema(self, path: str) -> Registered:
        found = _registered(await self._get(path))
        if found.kind == "PROTOBUF":  # Apicurio returns the text here, too
            return _registered(await self._get(f"{path}?format=serialized"))
        return found

    async def _get(self, path: str) -> Any:
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                async with self._slots:
                    found = await self._ask(path)
            except RegistryDownError as error:
                if not self._patient:
                    raise
                if self.trouble is None:
                    _log.error("schema registry does not answer; reading waits", error=str(error))
                self.trouble = str(error)
                await asyncio.sleep(uniform(0.5, 1) * wait)  # noqa: S311 - spreads load, guards nothing
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
            else:
                if self.trouble is not None:
                    self.trouble = None
                    _log.info("schema registry answers again")
                return found

    async def _ask(self, path: str) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=self._timeout)
        try:
            async with self._session.get(
                f"{self._url}{path}", ssl=True if self._tls is None else self._tls, allow_redirects=False
            ) as response:
                body = await response.content.read(MAX_SCHEMA_BYTES + 1)
                while not response.content.at_eof() and len(body) <= MAX_SCHEMA_BYTES:
                    body += await response.content.read(MAX_SCHEMA_BYTES + 1)
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise RegistryDownError(f"{self._url} does not answer ({type(error).__name__})") from error
        if status == 404:
            raise NoSchemaError
        if status in {400, 422, 501}:
            raise UnreadableError(f"the registry answers {status} to {path}")
        if status != 200:
            raise RegistryDownError(f"{self._url} answers {status}")
        if len(body) > MAX_SCHEMA_BYTES:
            raise UnreadableError(f"is larger than {MAX_SCHEMA_BYTES} bytes")
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            raise RegistryDownError(f"{self._url} does not answer with JSON; is it a registry?") from None


def _registered(found: Any) -> Registered:
    if not isinstance(found, Mapping) or not isinstance(found.get("schema"), str):
        raise UnreadableError("the registry returned no schema")
    references = []
    for one in found.get("references") or ():
        try:
            references.append((str(one["name"]), str(one["subject"]), int(one["version"])))
        except (KeyError, TypeError, ValueError):
            raise UnreadableError("a reference has no name, subject and version") from None
    return Registered(str(found.get("schemaType") or "AVRO"), found["schema"], tuple(references))
