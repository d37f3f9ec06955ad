"""A second lock on secrets: wherever a known one shows up in a text all the same, it is blotted out.

The first lock is that nobody puts one there. This one holds against what others write: a library's debug line, an endpoint
that echoes what it was sent.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

from pydantic import BaseModel, SecretStr

from streams.settings import Settings

MASK: Final = "***"
MIN_CHARS: Final = 6
"""A shorter secret is left alone: it would blot out words, and it is none."""
MAX_SECRET_BYTES: Final = 65_536
_PLAIN_FILES: Final = frozenset({"ca_file", "client_ca_file", "certificate_file", "key_file"})
"""Files that hold no line of text to be looked for."""
_WELL_KNOWN: Final = ("OPENAI_API_KEY",)


class Masker:
    """Blots out secrets in every form in which they travel: as they are, escaped, in a URL, in base64.

    Args:
        secrets: What to look for.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= MIN_CHARS for form in forms_of(secret)}
        # The longest first: one secret may begin with another.
        words = sorted(forms, key=len, reverse=True)
        self._expression = re.compile("|".join(map(re.escape, words))) if words else None

    @classmethod
    def of(cls, settings: Settings, env: Mapping[str, str]) -> Masker:
        """Look for all secrets that settings name, as far as they are there.

        Args:
            settings: The settings.
            env: Environment variables.
        """
        return cls({*secrets_of(settings, env), *(env[name].strip() for name in _WELL_KNOWN if name in env)})

    def mask(self, text: str) -> str:
        """Give the text without secrets."""
        return text if self._expression is None else self._expression.sub(MASK, text)


def forms_of(secret: str) -> set[str]:
    """Say how a secret may look in a text.

    Base64 depends on what stands before and after: of each of the three alignments the part that does not is taken.
    """
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {secret, quote(raw, safe=""), quote(raw), quote_plus(raw), repr(secret)[1:-1], repr(raw)[2:-1]}
    # Within JSON once more: what a line of the log makes of a repr.
    forms |= {
        json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (True, False)
    }
    for lead in range(3):
        encoded = base64.b64encode(b"\0" * lead + raw).decode().rstrip("=")
        # 6 bits a character: those with bits of the lead, and the last where its bits are not all the secret's.
        begin = -(-lead * 8 // 6)
        end = (lead + len(raw)) * 8 // 6
        core = encoded[begin:end]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= MIN_CHARS}


def secrets_of(model: BaseModel, env: Mapping[str, str]) -> Iterator[str]:
    """Give all secrets that a part of the settings names, by value, variable or file.

    They are found by the names of the fields, so that a setting that is added later is not forgotten here.
    """
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, SecretStr):
            yield value.get_secret_value().strip()
        elif isinstance(value, BaseModel):
            yield from secrets_of(value, env)
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, BaseModel):
                    yield from secrets_of(item, env)
        elif name.endswith("_env") and isinstance(value, str):
            yield env.get(value, "").strip()
        elif name.endswith("_file") and name not in _PLAIN_FILES and isinstance(value, Path):
            yield _content(value)


def _content(file: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError), file.open("rb") as stream:
        return stream.read(MAX_SECRET_BYTES).decode().strip()
    return ""
