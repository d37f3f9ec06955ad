"""Causes of failed connections, without a server's text, which may quote the request."""

from __future__ import annotations

import errno
import os
import socket
import ssl

MAX_CAUSES = 10
NO_DESCRIPTORS = (
    "this process has too many open files: raise its limit of file descriptors (ulimit -n, LimitNOFILE of a "
    "service) or lower judge.max_in_flight"
)
"""Shortage of this machine, which libraries report as a failure of the other side or of a file."""


def out_of_descriptors() -> bool:
    """Return whether this process can open no further file or socket."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in {errno.EMFILE, errno.ENFILE}
    return False


def cause_of(error: BaseException) -> str:
    """Return the first cause of a failed connection.

    It is the type of the exception, and the message only of one by the system or OpenSSL: HTTP libraries
    quote received bytes and addresses.
    """
    for _ in range(MAX_CAUSES):
        if error.__cause__ is None:
            break
        error = error.__cause__
    shortage = isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}
    if shortage or out_of_descriptors():
        return NO_DESCRIPTORS
    name = type(error).__name__
    words = ""
    if isinstance(error, ssl.SSLCertVerificationError):
        words = error.verify_message
    elif isinstance(error, ssl.SSLError | socket.gaierror | socket.herror):
        words = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or ""
    elif isinstance(error, OSError) and isinstance(error.errno, int):
        words = os.strerror(error.errno)
    return f"{name}: {words}" if words else name
