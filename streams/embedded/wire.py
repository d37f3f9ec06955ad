"""Requests of the wire protocol, in aiokafka's classes, and how handlers answer and refuse them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka.errors import BrokerResponseError

T = TypeVar("T")


class EmbeddedBrokerError(Exception):
    """Base of the errors of this package. What a request is refused with is an error of aiokafka."""


class MalformedRequestError(EmbeddedBrokerError):
    """The bytes are no valid request; the connection is closed."""


class InvalidRecordError(BrokerResponseError):  # type: ignore[misc]  # aiokafka is not annotated, and lacks it
    errno = 87


@dataclass(frozen=True, slots=True)
class Request:
    body: Any
    """An instance of the request's class; arrays and texts may be None, also where Kafka forbids it."""
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True)
class Api:
    """A supported request: the class of its oldest version; up to the newest, the structure is the same.

    The handler returns the response's fields, or None if the client wants no answer (produce with acks=0).
    """

    request: Any
    newest: int
    handle: Callable[[Request], Awaitable[tuple[Any, ...] | None]]

    @property
    def name(self) -> str:
        return str(self.request.__name__).partition("Request")[0]


def attempt(action: Callable[[], T], refused: T) -> tuple[int, str | None, T]:
    """Return 0, no message and the result, or the code and message of the refusal, and `refused`."""
    try:
        return 0, None, action()
    except BrokerResponseError as error:
        return error.errno, next(iter(error.args), None), refused


def by_topic(topics: Iterable[Any] | None, answer: Callable[..., Any]) -> list[tuple[str, list[Any]]]:
    """Answer each partition of a request, from its topic and its fields."""
    return [
        (topic, [answer(topic, *fields) for fields in partitions or ()]) for topic, partitions in topics or ()
    ]
