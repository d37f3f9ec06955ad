"""Tokens for OAUTHBEARER logins: from a file, from a token endpoint, or signed for Amazon MSK.

Connections are opened on several event loops, so blocking work runs in a further thread.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote_plus

import aiohttp
import structlog
from aiokafka.abc import AbstractTokenProvider

from judge.text.printable import printable
from streams.errors import SettingsError, TokenError
from streams.settings.base import Secret
from streams.settings.broker import OAuthSettings, SecuritySettings

_log = structlog.stdlib.get_logger(__name__)

FETCH_TIMEOUT_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 256 * 1024
UNKNOWN_LIFE_SECONDS: Final = 30.0
"""Lifetime assumed for a token if the endpoint does not report one."""
_SECRET: Final = "kafka.security.oauth.client_secret"  # as messages name it  # noqa: S105 - a name

Fetch: TypeAlias = Callable[[], tuple[str, float]]
"""Return a token and its lifetime in seconds, or raise `TokenError`; called in a thread, once at a time."""


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka is not annotated
    """Shares one token among all connections and renews it; the last is used until it expires."""

    def __init__(self, fetch: Fetch, now: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._now = now
        self._lock = threading.Lock()
        self._token = ""
        self._life_seconds = self._fetched_at = 0.0

    async def token(self) -> str:
        return await asyncio.to_thread(self._current)

    def _current(self) -> str:
        with self._lock:
            asked_at = self._now()
            age = asked_at - self._fetched_at
            if not self._token or age >= 0.8 * self._life_seconds:
                try:
                    self._token, self._life_seconds = self._fetch()
                    self._fetched_at = asked_at
                except TokenError as error:
                    if not self._token or age >= self._life_seconds:
                        raise
                    _log.warning("no new token; using the last one until it expires", error=str(error))
            return self._token


def given_tokens(
    secret: Secret, env: Mapping[str, str] | None = None, clock: Callable[[], float] = time.time
) -> Tokens:
    """Read the token at each connection; another process renews its file."""

    def fetch() -> tuple[str, float]:
        value = _read(secret, "kafka.security.token", env)
        expires_at = expiry_of(value)
        if expires_at is not None and expires_at <= clock():
            place = secret.file or secret.env
            raise TokenError(
                f"kafka.security.token: the token in {place} expired {round(clock() - expires_at)} s ago",
                "renew it (a file is read again for each connection)",
                lasting=True,
            )
        return value, 0.0

    return Tokens(fetch)


def _read(secret: Secret, name: str, env: Mapping[str, str] | None) -> str:
    try:
        return secret.read(name, env).get_secret_value()
    except SettingsError as error:
        reason, _, remedy = str(error).partition("; ")
        raise TokenError(reason, remedy, lasting=True) from None


def expiry_of(token: str) -> float | None:
    """Return a token's expiry in seconds since 1970; None if it is not a JSON Web Token or has no expiry."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    expires_at = claims.get("exp") if isinstance(claims, dict) else None
    return float(expires_at) if isinstance(expires_at, int | float) else None


def endpoint_tokens(
    oauth: OAuthSettings,
    *,
    tls: Any = None,
    env: Mapping[str, str] | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Tokens:
    oauth.client_secret.read(_SECRET, env)  # missing at the start, it is an error of the settings

    def fetch() -> tuple[str, float]:
        secret = _read(oauth.client_secret, _SECRET, env)
        # A new event loop: this runs in a thread, and the callers wait on several loops.
        status, answer = asyncio.run(_ask(oauth, secret, tls))
        return _token_of(oauth, status, answer, secret)

    return Tokens(fetch, now)


async def _ask(oauth: OAuthSettings, secret: str, tls: Any) -> tuple[int, bytes]:
    login = f"{quote_plus(oauth.client_id)}:{quote_plus(secret)}"
    form = {"grant_type": "client_credentials"}
    if oauth.scope is not None:
        form["scope"] = oauth.scope
    try:
        async with (
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=FETCH_TIMEOUT_SECONDS), trust_env=True
            ) as session,
            session.post(
                oauth.token_url,
                data=form,
                headers={
                    "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
                    "Accept": "application/json",
                },
                ssl=True if tls is None else tls,
                allow_redirects=False,  # do not send the secret to another host
            ) as response,
        ):
            return response.status, await response.content.read(MAX_ANSWER_BYTES)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        said = printable(str(error), 200) or type(error).__name__
        raise TokenError(
            f"kafka.security.oauth.token_url: the token endpoint cannot be reached ({said})",
            "check the address, the network, and kafka.security.ca_file for its certificate",
            lasting=False,
        ) from None


def _token_of(oauth: OAuthSettings, status: int, answer: bytes, secret: str) -> tuple[str, float]:
    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        said = None
    fields: dict[str, Any] = said if isinstance(said, dict) else {}
    value = fields.get("access_token")
    if status == 200 and isinstance(value, str) and value:
        return value, _life_seconds(fields.get("expires_in"), value)
    words = [str(fields[name]) for name in ("error", "error_description") if fields.get(name)]
    told = printable(": ".join(words).replace(secret, "***"), 200) or "without a reason"
    raise TokenError(
        f"kafka.security.oauth.token_url: the token endpoint gives {oauth.client_id!r} no token "
        f"(status {status}, {told})",
        "check kafka.security.oauth: token_url, client_id, the secret, scope; and the endpoint's own log",
        lasting=status < 500 and status != 429,  # an overloaded or broken endpoint may recover
    )


def _life_seconds(told: Any, token: str) -> float:
    if isinstance(told, str) and told.isascii() and told.isdigit():
        told = int(told)  # some endpoints send it as text
    if isinstance(told, int | float) and told > 0:
        return float(told)
    expires_at = expiry_of(token)
    return UNKNOWN_LIFE_SECONDS if expires_at is None else max(expires_at - time.time(), 0.0)


def msk_tokens(region: str) -> Tokens:
    try:
        signer: Any = importlib.import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ImportError:
        what = "AWS_MSK_IAM needs a library that is not installed"
        remedy = 'install the extra msk: pip install "judgestream[msk]"'
        raise SettingsError([f"kafka.security.mechanism: {what}; {remedy}"]) from None

    def fetch() -> tuple[str, float]:
        try:
            value, expires_at_ms = signer.generate_auth_token(region)
        except Exception as error:  # noqa: BLE001 - the AWS libraries raise errors of many families
            said = f"{type(error).__name__}: {printable(str(error), 200)}"
            raise TokenError(
                f"no token can be signed for Amazon MSK ({said})",
                "check that the process has AWS credentials (role of the pod or machine, variables, profile)",
                lasting=False,  # the machine's metadata service may start after the process
            ) from None
        return value, max(expires_at_ms / 1000 - time.time(), 0.0)

    return Tokens(fetch)


def open_tokens(
    security: SecuritySettings, *, tls: Callable[[Path], Any], env: Mapping[str, str] | None = None
) -> Tokens | None:
    if security.token is not None:
        return given_tokens(security.token, env)
    if security.oauth is not None:
        ca_file = security.ca_file
        return endpoint_tokens(security.oauth, tls=None if ca_file is None else tls(ca_file), env=env)
    if security.aws_region is not None:
        return msk_tokens(security.aws_region)
    return None
