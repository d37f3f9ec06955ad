"""Find known secrets in any form: plain, escaped, in a URL, in base64. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus

MASK: Final = "***"
MIN_CHARS: Final = 6
"""Shorter secrets are not redacted, because they would match ordinary words."""


class Masker:
    """Redacts secrets in all of these forms.

    Args:
        secrets: The secrets.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= MIN_CHARS for form in forms_of(secret)}
        # Longest first, because one secret may start with another.
        words = sorted(forms, key=len, reverse=True)
        self._expression = re.compile("|".join(map(re.escape, words))) if words else None

    def mask(self, text: str) -> str:
        """Return the text without secrets."""
        return text if self._expression is None else self._expression.sub(MASK, text)


def forms_of(secret: str) -> set[str]:
    """Return the forms of a secret in a text.

    Base64 depends on the neighbouring bytes; of each of the three alignments only the independent part is
    used.
    """
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {secret, quote(raw, safe=""), quote(raw), quote_plus(raw), repr(secret)[1:-1], repr(raw)[2:-1]}
    # Escaped twice, as a log line escapes a repr.
    forms |= {
        json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (True, False)
    }
    for lead in range(3):
        encoded = base64.b64encode(b"\0" * lead + raw).decode().rstrip("=")
        # 6 bits per character: drop those with bits of other bytes at the start and the end.
        begin = -(-lead * 8 // 6)
        end = (lead + len(raw)) * 8 // 6
        core = encoded[begin:end]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= MIN_CHARS}
