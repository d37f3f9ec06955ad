"""Requests and their handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.embedded.protocol.codes import ApiKey
    from streams.embedded.protocol.wire import Reader, Writer


@dataclass(frozen=True, slots=True)
class Request:
    """A request with a parsed header; `body` is positioned after it."""

    version: int
    client_id: str
    client_host: str
    body: Reader


# Handles a request; returns None if the client wants no answer (produce with acks=0).
Handler = Callable[[Request], Awaitable["Writer | None"]]


@dataclass(frozen=True, slots=True)
class Api:
    """A request type, its supported versions and its handler."""

    key: ApiKey
    oldest: int
    newest: int
    handle: Handler
