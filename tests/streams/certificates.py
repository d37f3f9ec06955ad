"""Certificates for one test, made on the spot."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True)
class Files:
    """A certificate and its key as files.

    Attributes:
        certificate: PEM, intermediate ones after it.
        key: PEM.
    """

    certificate: Path
    key: Path


class Authority:
    """Signs certificates and leaves them as files.

    Args:
        folder: Where to.
        name: Distinguishes its files from those of others.
    """

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self._name = name
        self.file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, files: str, *names: str) -> Files:
        """Issue a certificate for host names; files of that name are replaced as a rotated secret is.

        Args:
            files: Stem of the file names.
            names: Hosts; 127.0.0.1 and localhost without any.
        """
        leaf = self._ca.issue_cert(*(names or ("127.0.0.1", "localhost")))
        made = Files(self._folder / f"{files}.pem", self._folder / f"{files}.key")
        _replace(made.key, leaf.private_key_pem.bytes())
        _replace(made.certificate, b"".join(one.bytes() for one in leaf.cert_chain_pems))
        return made


def _replace(file: Path, content: bytes) -> None:
    beside = file.with_suffix(".new")
    beside.write_bytes(content)
    os.replace(beside, file)  # noqa: PTH105 - the word for what happens
