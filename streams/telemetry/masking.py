"""Redacts known secrets in texts, as a second defence.

Our own code puts no secret into a text; this also covers texts of others, such as a library's debug line or
an endpoint that echoes its request.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, SecretStr

from judge.text.sensitive.secrets import MIN_CHARS, Masker
from streams.settings import Settings

MAX_SECRET_BYTES: Final = 65_536
_PLAIN_FILES: Final = frozenset({"ca_file", "client_ca_file", "certificate_file", "key_file"})
"""Fields of files without a text secret."""
SHORT_SECRET: Final = (
    f"this secret is shorter than {MIN_CHARS} characters and is not redacted in logs; use a longer one, or "
    "remove the setting if none is needed"
)
_WELL_KNOWN: Final = ("OPENAI_API_KEY",)


def settings_masker(settings: Settings, env: Mapping[str, str]) -> Masker:
    """Return a masker of all secrets named in the settings that can be read.

    Args:
        settings: The settings.
        env: Environment variables.
    """
    named = (secret for _, secret in secrets_of(settings, env))
    return Masker({*named, *(env[name].strip() for name in _WELL_KNOWN if name in env)})


def short_secrets(settings: Settings, env: Mapping[str, str]) -> list[str]:
    """Return the settings whose secret is too short to redact: ordinary words would be redacted, too.

    They cause a warning, not an error: a key such as "none" for a judge of your own is no secret.
    """
    return [path for path, secret in secrets_of(settings, env) if 0 < len(secret) < MIN_CHARS]


def secrets_of(model: BaseModel, env: Mapping[str, str], within: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting that names a secret, by its dotted path, with the secret (empty if missing).

    They are found by field name, so later settings are included.

    Args:
        model: A part of the settings.
        env: Environment variables.
        within: The path of that part, ending in a full stop.
    """
    for name in type(model).model_fields:
        value = getattr(model, name)
        path = f"{within}{name}"
        if isinstance(value, SecretStr):
            yield path, value.get_secret_value().strip()
        elif isinstance(value, BaseModel):
            yield from secrets_of(value, env, f"{path}.")
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from secrets_of(item, env, f"{path}.{index}.")
        elif name.endswith("_env") and isinstance(value, str):
            yield path, env.get(value, "").strip()
        elif name.endswith("_file") and name not in _PLAIN_FILES and isinstance(value, Path):
            yield path, _content(value)


def _content(file: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError), file.open("rb") as stream:
        return stream.read(MAX_SECRET_BYTES).decode().strip()
    return ""
