"""Addresses of endpoints: loopback hosts, and the list of models behind one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import orjson

MAX_LIST_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ModelList:
    """An endpoint's answer.

    Args:
        status: The HTTP status.
        names: The models; None if the reply has no list (many gateways have none, and some keys may not read
            it).
        date: The `Date` header, unless the reply comes from a cache.
    """

    status: int
    names: tuple[str, ...] | None
    date: str | None = None


async def list_models(base_url: str, api_key: str, *, timeout_seconds: float) -> ModelList:
    """Return the models of an endpoint. Redirects are not followed."""
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    async with (
        asyncio.timeout(timeout_seconds),
        # No proxy for loopback addresses.
        aiohttp.ClientSession(trust_env=not is_loopback(urlsplit(base_url).hostname or "")) as session,
        session.get(f"{base_url}/models", headers=headers, allow_redirects=False) as answer,
    ):
        body = await answer.content.read(MAX_LIST_BYTES)
        date = None if "Age" in answer.headers else answer.headers.get("Date")
        return ModelList(answer.status, _names(body) if answer.status == 200 else None, date)


def _names(body: bytes) -> tuple[str, ...] | None:
    try:
        listed: Any = orjson.loads(body)["data"]
        return tuple(str(one["id"]) for one in listed)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address; of names only `localhost` counts."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
