"""Searches written output for secrets, in every encoding."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus


def forms(secret: str) -> set[bytes]:
    """The byte forms of a secret: plain, escaped, URL-encoded, and base64 in each of three alignments."""
    raw = secret.encode()
    found = {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        raw.hex(),
    }
    for lead in (b"", b"x", b"xx"):
        encoded = base64.b64encode(lead + raw + b"yyy").decode()
        # The characters at both ends share bits with their neighbours.
        core = encoded[-(-len(lead) * 8 // 6) : (len(lead) + len(raw)) * 8 // 6]
        found |= {core, core.replace("+", "-").replace("/", "_")}
    return {form.encode() for form in found}


@dataclass
class Scan:
    secrets: Mapping[str, str]
    _written: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, place: str, written: bytes | str) -> None:
        self._written.append((place, written.encode() if isinstance(written, str) else written))

    def find(self) -> Iterator[str]:
        for name, secret in self.secrets.items():
            for form in forms(secret):
                for place, written in self._written:
                    at = written.find(form)
                    if at >= 0:
                        yield f"{name} in {place}: ...{written[max(0, at - 300) : at + len(form) + 80]!r}"

    @property
    def size(self) -> int:
        return sum(len(written) for _, written in self._written)

    def text(self) -> str:
        return "\n".join(written.decode(errors="replace") for _, written in self._written)
