"""Section `kafka.security`: authentication and encryption of broker connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from judge.endpoint.hosts import is_loopback
from streams.settings.addresses import is_secret_name
from streams.settings.base import EnvName, FilePath, Section, refuse

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"]

_PASSWORDS: Final = ("password", "password_env", "password_file")
_LOGIN: Final = ("username", *_PASSWORDS)
_OAUTH: Final = ("token_file", "oauth")
_AWS: Final = ("aws_region",)
_TLS: Final = ("ca_file", "certificate_file", "key_file", "key_password_env", "key_password_file")
_OF_MECHANISM: Final[Mapping[Mechanism, tuple[str, ...]]] = {
    "PLAIN": _LOGIN,
    "SCRAM-SHA-256": _LOGIN,
    "SCRAM-SHA-512": _LOGIN,
    "OAUTHBEARER": _OAUTH,
    "AWS_MSK_IAM": _AWS,
}
"""The settings of each mechanism."""
_OF_ANY: Final = tuple(dict.fromkeys(name for names in _OF_MECHANISM.values() for name in names))
_WITHOUT_PASSWORD: Final = tuple(name for name in _OF_ANY if name not in _LOGIN)


def _token_url(url: str) -> str:
    # The value is not repeated: a URL may contain a secret.
    parts = urlsplit(url)
    problem = None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        problem = "must be a URL; write for example https://login.example.com/oauth2/token"
    elif parts.username is not None or parts.password is not None:
        problem = "must not contain a user or password; use client_id and client_secret_env"
    elif any(is_secret_name(name) for name, _ in parse_qsl(parts.query)):
        problem = "must not have a secret in its query, because it is displayed; use client_secret_env"
    elif parts.scheme == "http" and not is_loopback(parts.hostname):
        problem = "must be https: the secret would be sent unencrypted"
    refuse([] if problem is None else [("", problem)])
    return url


class OAuthSettings(Section):
    """Tokens by the client-credentials grant of OAuth 2.0 (RFC 6749, section 4.4)."""

    token_url: Annotated[str, AfterValidator(_token_url)] = Field(description="The token endpoint.")
    client_id: str = Field(min_length=1, description="The client id.")
    client_secret_env: EnvName | None = Field(
        default=None, description="Name of the environment variable with the client's secret."
    )
    client_secret_file: FilePath | None = Field(
        default=None, description="File with the client's secret; read again for each token."
    )
    scope: str | None = Field(default=None, min_length=1, description="Scopes, separated by spaces.")
    ca_file: FilePath | None = Field(
        default=None,
        description="Certificate authorities of the token endpoint (PEM); the system's otherwise.",
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        given = [
            name for name in ("client_secret_env", "client_secret_file") if getattr(self, name) is not None
        ]
        problems: list[tuple[str, str]] = []
        if not given:
            problems.append(("client_secret_env", "is required; set it or client_secret_file"))
        if len(given) > 1:
            problems.append(("", f"{' and '.join(given)} exclude each other; keep one"))
        if self.ca_file is not None and not self.token_url.startswith("https:"):
            problems.append(("ca_file", "has no effect with an http token_url; remove it"))
        refuse(problems)
        return self


class SecuritySettings(Section):
    """Authentication at the broker. Secrets come from the environment or a file, never from YAML."""

    protocol: Protocol = Field(default="PLAINTEXT", description="The listener's security protocol.")
    mechanism: Mechanism | None = Field(default=None, description="SASL mechanism (SASL protocols only).")
    username: str | None = Field(default=None, min_length=1, description="SASL user (PLAIN and SCRAM only).")
    password: SecretStr | None = Field(
        default=None, description="Only by the variable JUDGESTREAM_KAFKA__SECURITY__PASSWORD, never in YAML."
    )
    password_env: EnvName | None = Field(
        default=None, description="Name of the environment variable with the password."
    )
    password_file: FilePath | None = Field(
        default=None, description="File with the password; read again for each connection."
    )
    ca_file: FilePath | None = Field(
        default=None, description="Certificate authorities (PEM); the system's otherwise."
    )
    certificate_file: FilePath | None = Field(default=None, description="Client certificate (PEM).")
    key_file: FilePath | None = Field(
        default=None, description="Private key of the client certificate (PEM)."
    )
    key_password_env: EnvName | None = Field(
        default=None, description="Name of the environment variable with the private key's password."
    )
    key_password_file: FilePath | None = Field(
        default=None, description="File with the private key's password."
    )
    token_file: FilePath | None = Field(
        default=None,
        description="File with a token (OAUTHBEARER only); read again for each connection.",
    )
    oauth: OAuthSettings | None = Field(
        default=None, description="Token endpoint with client credentials (OAUTHBEARER only)."
    )
    aws_region: str | None = Field(
        default=None, pattern=r"^[a-z0-9-]{1,40}$", description="Region of the cluster (AWS_MSK_IAM only)."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        problems = self._problems_of_login() if self.protocol.startswith("SASL_") else self._no_login()
        problems += self._problems_of_choice()
        if not self.protocol.endswith("SSL"):
            problems += self._without_effect(
                _TLS, f"protocol {self.protocol}; remove it or choose an SSL protocol"
            )
        refuse(problems)
        return self

    def _given(self, *names: str) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]

    def _without_effect(self, names: tuple[str, ...], why: str) -> list[tuple[str, str]]:
        return [(name, f"has no effect with {why}") for name in self._given(*names)]

    def _no_login(self) -> list[tuple[str, str]]:
        return self._without_effect(
            ("mechanism", *_OF_ANY),
            f"protocol {self.protocol}; remove it or choose a SASL protocol",
        )

    def _problems_of_login(self) -> list[tuple[str, str]]:
        own = _LOGIN if self.mechanism is None else _OF_MECHANISM[self.mechanism]
        others = tuple(name for name in _OF_ANY if name not in own)
        problems = []
        if self.mechanism is None:
            problems.append(("mechanism", f"is required with protocol {self.protocol}; set it"))
        else:
            problems += self._without_effect(others, f"mechanism {self.mechanism}; remove it")
        if own == _LOGIN:
            # Also without a mechanism: most need a user, so report both problems at once.
            if self.username is None and not self._given(*_WITHOUT_PASSWORD):
                problems.append(("username", f"is required with protocol {self.protocol}; set it"))
            if not self._given(*_PASSWORDS, *_WITHOUT_PASSWORD):
                what = f"is required with protocol {self.protocol}; set it or password_file"
                problems.append(("password_env", what))
        elif own == _OAUTH and not self._given(*_OAUTH):
            problems.append(("token_file", "is required with mechanism OAUTHBEARER; set it or oauth"))
        elif own == _AWS:
            if self.aws_region is None:
                problems.append(("aws_region", "is required with mechanism AWS_MSK_IAM; set it"))
            if self.protocol != "SASL_SSL":
                what = f"must be SASL_SSL with mechanism AWS_MSK_IAM (got {self.protocol}); set it"
                problems.append(("protocol", what))
        return problems

    def _problems_of_choice(self) -> list[tuple[str, str]]:
        problems = []
        for choice in (_PASSWORDS, _OAUTH, ("key_password_env", "key_password_file")):
            given = self._given(*choice)
            if len(given) > 1:
                problems.append(("", f"{' and '.join(given)} exclude each other; keep one"))
        if (self.certificate_file is None) != (self.key_file is None):
            problems.append(("", "certificate_file and key_file belong together; set both or none"))
        if self.key_file is None and self.protocol.endswith("SSL"):
            problems += [
                (name, "has no effect without key_file; set key_file or remove it")
                for name in self._given("key_password_env", "key_password_file")
            ]
        return problems
