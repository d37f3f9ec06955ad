"""Causes of failed connections, without a server's text, which may quote the request."""

from __future__ import annotations

import os
import socket
import ssl

MAX_CAUSES = 10


def cause_of(error: BaseException) -> str:
    """Return the first cause of a failed connection.

    It is the type of the exception, and the message only of one by the system or OpenSSL: HTTP libraries
    quote received bytes and addresses.
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
