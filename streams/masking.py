"""A second lock on secrets: wherever a known one shows up in a text all the same, it is blotted out.

The first lock is that nobody puts one there. This one holds against what others write: a library's debug line, an endpoint
that echoes what it was sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, SecretStr

from judge.secret_forms import Masker
from streams.settings import Settings

MAX_SECRET_BYTES: Final = 65_536
_PLAIN_FILES: Final = frozenset({"ca_file", "client_ca_file", "certificate_file", "key_file"})
"""Files that hold no line of text to be looked for."""
_WELL_KNOWN: Final = ("OPENAI_API_KEY",)


def settings_masker(settings: Settings, env: Mapping[str, str]) -> Masker:
    """Build what blots out all secrets that settings name, as far as they are there.

    Args:
        settings: The settings.
        env: Environment variables.
    """
    return Masker({*secrets_of(settings, env), *(env[name].strip() for name in _WELL_KNOWN if name in env)})


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
