"""Errors of the embedded broker.

EmbeddedBrokerError
  MalformedRequestError     the bytes are no request: the connection is closed
  RefusedError              the request is understood and refused: the client gets the error code
"""

from __future__ import annotations

from streams.embedded.protocol.codes import ErrorCode


class EmbeddedBrokerError(Exception):
    """Base of the errors of this package."""


class MalformedRequestError(EmbeddedBrokerError):
    """The bytes are no valid request; the connection is closed."""


class RefusedError(EmbeddedBrokerError):
    """A request, or the part of it about one topic or partition, is refused."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
