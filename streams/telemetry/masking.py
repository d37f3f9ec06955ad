"""Redacts known secrets in texts, as a second defence.

Our own code puts no secret into a text; this also covers texts of others, such as a library's debug line or
an endpoint that echoes its request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from judge.text.redaction import MIN_CHARS, Masker
from streams.settings import Settings, secrets_of

SHORT_SECRET: Final = (
    f"this secret is shorter than {MIN_CHARS} characters and is not redacted in logs; use a longer one, or "
    "remove the setting if none is needed"
)
_WELL_KNOWN: Final = ("OPENAI_API_KEY",)


def settings_masker(settings: Settings, env: Mapping[str, str]) -> Masker:
    """Return a masker of all secrets named in the settings that can be read."""
    named = (secret for _, secret in secrets_of(settings, env))
    return Masker({*named, *(env[name].strip() for name in _WELL_KNOWN if name in env)})


def short_secrets(settings: Settings, env: Mapping[str, str]) -> list[str]:
    """Return the settings whose secret is too short to redact: ordinary words would be redacted, too.

    They cause a warning, not an error: a key such as "none" for a judge of your own is no secret.
    """
    return [path for path, secret in secrets_of(settings, env) if 0 < len(secret) < MIN_CHARS]
