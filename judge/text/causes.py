"""Why a connection failed, in the system's words alone: those of a server may quote what it was sent."""

from __future__ import annotations

import os
import socket
import ssl

MAX_CAUSES = 10


def cause_of(error: BaseException) -> str:
    """Name the first cause of a failed connection.

    The type of the exception, and of one by the system or by OpenSSL their words. Those of an HTTP library
    quote the bytes that came, and the address that was asked.
    """
    for _ in range(MAX_CAUSES):
        if error.__cause__ is None:
            break
        error = error.__cause__
    name = type(error).__name__
    words = ""
    if isinstance(error, ssl.SSLCertVerificationError):
        words = error.verify_message
    elif isinstance(error, ssl.SSLError | socket.gaierror | socket.herror):
        words = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or ""
    elif isinstance(error, OSError) and isinstance(error.errno, int):
        words = os.strerror(error.errno)
    return f"{name}: {words}" if words else name
