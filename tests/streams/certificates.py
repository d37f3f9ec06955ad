from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import trustme
from cryptography.hazmat.primitives import serialization


@dataclass(frozen=True, slots=True)
class Files:
    """PEM files; the intermediate certificates follow the certificate."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that writes its own certificate and those that it issues to a folder."""

    key_type: ClassVar = trustme.KeyType.ECDSA

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA(key_type=self.key_type)
        self._folder = folder
        self._name = name
        self.file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, files: str, *names: str, **options: Any) -> Files:
        """Issue a certificate for hosts; existing files of this stem are replaced, as a rotated secret is."""
        hosts = names or ("127.0.0.1", "localhost")
        leaf = self._ca.issue_cert(*hosts, key_type=self.key_type, **options)
        made = Files(self._folder / f"{files}.pem", self._folder / f"{files}.key")
        key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        form = serialization.PrivateFormat.PKCS8  # Java reads no other
        _replace(made.key, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        _replace(made.certificate, b"".join(one.bytes() for one in leaf.cert_chain_pems))
        return made


def _replace(file: Path, content: bytes) -> None:
    beside = file.with_suffix(".new")
    beside.write_bytes(content)
    os.replace(beside, file)  # noqa: PTH105 - os.replace says that the file is replaced
