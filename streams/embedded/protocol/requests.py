"""One request in transit from a connection to the function that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.embedded.protocol.codes import ApiKey
    from streams.embedded.protocol.wire import Reader, Writer


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose header was read; `body` stands at the first byte after it."""

    version: int
    client_id: str
    client_host: str
    body: Reader


# Answers a request; None where the client wants no answer (produce with acks=0).
Handler = Callable[[Request], Awaitable["Writer | None"]]


@dataclass(frozen=True, slots=True)
class Api:
    """A request type, the versions of it that are understood, and who answers it."""

    key: ApiKey
    oldest: int
    newest: int
    handle: Handler
