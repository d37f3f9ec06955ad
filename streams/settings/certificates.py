"""Certificates in files: their validity period, and TLS contexts that reload changed files."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

import structlog

from streams.errors import SettingsError

_log = structlog.stdlib.get_logger(__name__)

_PEM_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_PEM_END: Final = "-----END CERTIFICATE-----"
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18

Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Validity:
    """A certificate's validity period, both ends included."""

    begins: datetime
    ends: datetime


def validity_of(file: Path) -> Validity:
    """Read the validity period of the first certificate in a PEM file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It contains no certificate.
    """
    text = file.read_text(encoding="ascii", errors="replace")
    begin = text.find(_PEM_BEGIN)
    end = text.find(_PEM_END, begin)
    if begin < 0 or end < 0:
        raise ValueError(f"{file} has no PEM certificate")
    try:
        return _validity(ssl.PEM_cert_to_DER_cert(text[begin : end + len(_PEM_END)]))
    except (IndexError, ValueError) as error:
        raise ValueError(f"{file} has no readable certificate ({error})") from None


def _validity(der: bytes) -> Validity:
    """Return the validity: Certificate, TBSCertificate, [version], serial, algorithm, issuer, validity."""
    _, certificate, _ = _element(der)
    _, to_be_signed, _ = _element(certificate)
    tag, _, rest = _element(to_be_signed)
    for _ in range(3 if tag == _VERSION else 2):
        _, _, rest = _element(rest)
    tag, dates, _ = _element(rest)
    if tag != _SEQUENCE:
        raise ValueError("no validity where it belongs")
    tag, begins, rest = _element(dates)
    return Validity(_moment(tag, begins), _moment(*_element(rest)[:2]))


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Split off one element of DER: return its tag, its content and the rest."""
    tag, length, at = data[0], data[1], 2
    if length >= 0x80:
        at += length - 0x80
        length = int.from_bytes(data[2:at], "big")
    if at + length > len(data):
        raise ValueError("it is cut off")
    return tag, data[at : at + length], data[at + length :]


def _moment(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == _UTC_TIME:  # two digits: 50 and above mean 19xx
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("no date where it belongs")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


class RotatingContext(ssl.SSLContext):
    """A TLS context that is rebuilt for new connections when its files have changed.

    It checks the files at each new connection, without a background task. If the new files are invalid (for
    example half written), the old context remains in use and a warning is logged. Thread-safe.

    Args:
        build: Builds the inner context.
        files: Its files; a change of any of them, or of a symbolic link's target, triggers a rebuild.

    Raises:
        SettingsError: It cannot be built.
    """

    _build: Callable[[], ssl.SSLContext]
    _files: Sequence[Path]
    _lock: threading.Lock
    _seen: Signature
    _inner: ssl.SSLContext

    def __new__(cls, build: Callable[[], ssl.SSLContext], files: Sequence[Path]) -> Self:
        """Build the first context."""
        self = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        self._build = build
        self._files = tuple(files)
        self._lock = threading.Lock()
        self._seen = self._signature()
        self._inner = build()
        return self

    def __init__(self, build: Callable[[], ssl.SSLContext], files: Sequence[Path]) -> None:
        """Do nothing: `__new__` does the work, because `ssl.SSLContext` requires that."""

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Start an asyncio connection with the current files."""
        return self._current().wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """Start a socket connection with the current files."""
        return self._current().wrap_socket(*args, **kwargs)

    def _current(self) -> ssl.SSLContext:
        with self._lock:
            signature = self._signature()
            if signature != self._seen:
                # Set first, so that invalid files are logged once, not at each connection.
                self._seen = signature
                try:
                    self._inner = self._build()
                except SettingsError as error:
                    _log.warning("changed certificates are invalid; keeping the old ones", error=str(error))
                else:
                    _log.info("certificates were read again", files=[str(file) for file in self._files])
            return self._inner

    def _signature(self) -> Signature:
        return tuple(map(_stamp, self._files))


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
