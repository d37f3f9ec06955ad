"""Validates addresses and parameters of endpoints; refuses secrets there, because they would be displayed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from pydantic import JsonValue

from judge.endpoint.hosts import is_loopback
from judge.text.sensitive import credentials
from streams.settings.base import refuse

QUERY_NAMES: Final = frozenset({"api-version"})
"""Query parameters that an address may have; any other may be a key."""
_SECRET_WORDS: Final = frozenset(
    {
        "apikey",
        "authorization",
        "auth",
        "bearer",
        "cookie",
        "credential",
        "credentials",
        "passwd",
        "password",
        "secret",
    }
)
_SECRET_ENDS: Final = frozenset({"key", "token", "signature", "sig"})
_HEADERS: Final = frozenset({"headers", "extra_headers", "extra_query", "default_headers", "default_query"})
_NOT_SECRET: Final = frozenset({"prompt_cache_key"})


def endpoint_address(text: str) -> str:
    """Check an endpoint's address. A message never repeats a value that may contain a secret.

    Raises:
        ValueError: It is not an address. PydanticCustomError: It contains a user, a password, or a query
        other than a version.
    """
    try:
        parts = urlsplit(text)
        legal = (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
        names = {
            name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20)
        }
    except ValueError:
        refuse([("", "must be an http or https address; write for example http://127.0.0.1:8000/v1")])
        raise
    if "@" in parts.netloc:
        refuse([("", "must not contain a user or password; use api_key_env or api_key_file")])
    if parts.fragment or (parts.query and not names) or names - QUERY_NAMES:
        allowed = ", ".join(sorted(QUERY_NAMES))
        refuse(
            [
                (
                    "",
                    (
                        f"may have no query but ?{allowed}=..., because it is displayed; use api_key_env or "
                        "api_key_file for a key"
                    ),
                )
            ]
        )
    if not legal:
        raise ValueError("must be an http or https address; write for example http://127.0.0.1:8000/v1")
    if _holds_secret(text):
        refuse([("", "contains what looks like a secret, and is displayed; use api_key_env or api_key_file")])
    return text.rstrip("/")


def web_address(url: str) -> str:
    """Check a service's address, which is displayed, and remove a slash at its end.

    Raises:
        ValueError: It is not an address. PydanticCustomError: It contains a user, a password, or what looks
        like a secret.
    """
    if not url.startswith(("https://", "http://")):
        raise ValueError("must start with https:// or http://")
    try:
        parts = urlsplit(url)
        names = [name for name, _ in parse_qsl(parts.query, max_num_fields=20)]
        legal = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        legal, names = False, []
    if not legal:
        refuse([("", "must be an http or https address; write for example https://service.example.com")])
    if "@" in parts.netloc:
        refuse([("", "must not contain a user or password, because it is displayed; use their own settings")])
    if any(map(is_secret_name, names)) or _holds_secret(url):
        refuse([("", "contains what looks like a secret, and is displayed; use secret_env or secret_file")])
    return url.rstrip("/")


def refuse_secret_parameters(parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Check parameters: every result contains them.

    Raises:
        PydanticCustomError: One has a secret's name or form; the message omits its value.
    """
    refuse(
        [
            (path, f"{what}, and parameters are published in every result; use api_key_env or api_key_file")
            for path, what in _secrets(parameters, "")
        ]
    )
    return parameters


def _secrets(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            where = f"{path}.{name}" if path else name
            if is_secret_name(name):
                yield where, "names a secret or headers"
            else:
                yield from _secrets(inner, where)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _secrets(inner, f"{path}.{place}")
    elif isinstance(value, str) and _holds_secret(value):
        yield path, "contains what looks like a secret"


def _holds_secret(text: str) -> bool:
    # A key may be between slashes, or contain slashes.
    return any(next(credentials.find(form), None) for form in (text, text.replace("/", " ")))


def is_secret_name(name: str) -> bool:
    """Return whether a name suggests that its value is a secret, or headers, which may contain one."""
    lowered = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[:200]).lower()
    if lowered in _NOT_SECRET:
        return False
    words = re.split(r"[\W_]+", lowered)
    return lowered in _HEADERS or words[-1] in _SECRET_ENDS or not _SECRET_WORDS.isdisjoint(words)


def sends_key_in_the_clear(base_url: str, *, has_key: bool) -> bool:
    """Return whether an API key would be sent to another machine unencrypted."""
    parts = urlsplit(base_url)
    return has_key and parts.scheme == "http" and not is_loopback(parts.hostname or "")
