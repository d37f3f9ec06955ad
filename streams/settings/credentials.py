"""Reads secrets from the environment and files that the settings name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from streams.errors import SettingsError
from streams.settings.sections.judge import EndpointSettings
from streams.settings.sections.security import OAuthSettings, SecuritySettings

MAX_SECRET_BYTES = 65_536


def resolve_secret(
    path: str,
    *,
    value: SecretStr | None = None,
    env_name: str | None = None,
    file: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> SecretStr | None:
    """Read one secret.

    Args:
        path: Dotted path of the setting without its suffix, such as "judge.endpoints.0.api_key"; for
            messages.
        value: The secret itself, if an environment variable set it.
        env_name: Name of the environment variable with the secret.
        file: File with the secret; surrounding white space is removed.
        env: Environment variables; those of the process by default.

    Returns:
        The secret, or None if the settings name no source.

    Raises:
        SettingsError: The named source is missing or empty.
    """
    if value is not None:
        text, place = value.get_secret_value(), f"{path}: "
    elif env_name is not None:
        env = os.environ if env is None else env
        text, place = env.get(env_name, ""), f"{path}_env: the environment variable {env_name} "
    elif file is not None:
        text, place = _read(f"{path}_file", file), f"{path}_file: {file} "
    else:
        return None
    text = text.strip()
    if not text:
        raise SettingsError([f"{place}is not set or empty; put the secret there"])
    return SecretStr(text)


def resolve_password(security: SecuritySettings, env: Mapping[str, str] | None = None) -> SecretStr | None:
    """Return the broker's password; None if the protocol needs none.

    Raises:
        SettingsError: The named source is missing or empty.
    """
    return resolve_secret(
        "kafka.security.password",
        value=security.password,
        env_name=security.password_env,
        file=security.password_file,
        env=env,
    )


def resolve_key_password(
    security: SecuritySettings, env: Mapping[str, str] | None = None
) -> SecretStr | None:
    """Return the password of the client certificate's key; None if the settings name none.

    Raises:
        SettingsError: The named source is missing or empty.
    """
    return resolve_secret(
        "kafka.security.key_password",
        env_name=security.key_password_env,
        file=security.key_password_file,
        env=env,
    )


def resolve_client_secret(oauth: OAuthSettings, env: Mapping[str, str] | None = None) -> SecretStr:
    """Return the OAuth client's secret.

    Raises:
        SettingsError: The named source is missing or empty.
    """
    secret = resolve_secret(
        "kafka.security.oauth.client_secret",
        env_name=oauth.client_secret_env,
        file=oauth.client_secret_file,
        env=env,
    )
    if secret is None:
        raise SettingsError(
            ["kafka.security.oauth.client_secret_env is required; set it or client_secret_file"]
        )
    return secret


def resolve_api_key(endpoint: EndpointSettings, env: Mapping[str, str] | None = None) -> SecretStr | None:
    """Return an endpoint's key; None if it needs none.

    Raises:
        SettingsError: The named source is missing or empty.
    """
    return resolve_secret(
        f"judge.endpoints ({endpoint.name}).api_key",
        value=endpoint.api_key,
        env_name=endpoint.api_key_env,
        file=endpoint.api_key_file,
        env=env,
    )


def _read(path: str, file: Path) -> str:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_SECRET_BYTES + 1)
        if len(raw) > MAX_SECRET_BYTES:
            raise SettingsError(
                [f"{path}: {file} is larger than {MAX_SECRET_BYTES} bytes; put only the secret in it"]
            )
        return raw.decode()
    except OSError as error:
        raise SettingsError(
            [f"{path}: {file} cannot be read ({error.strerror}); check path and permissions"]
        ) from None
    except UnicodeDecodeError:
        raise SettingsError(
            [f"{path}: {file} is not UTF-8 text; use a file that contains only the secret"]
        ) from None
