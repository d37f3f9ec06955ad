"""Section `kafka.security`: what belongs together, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from streams.errors import SettingsError
from streams.settings import (
    OAuthSettings,
    SecuritySettings,
    Settings,
    load_settings,
    resolve_client_secret,
    resolve_key_password,
)
from streams.settings.problems import explain

OAUTH = {"token_url": "https://login.example.com/token", "client_id": "c", "client_secret_env": "S"}
BEARER = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER"}
MSK = {"protocol": "SASL_SSL", "mechanism": "AWS_MSK_IAM", "aws_region": "eu-west-1"}
TLS_KEY = {"protocol": "SSL", "certificate_file": "c", "key_file": "k"}


@pytest.mark.parametrize(
    "security",
    [
        {},
        {"protocol": "SSL"},
        {"protocol": "SSL", "ca_file": "ca"},
        TLS_KEY | {"key_password_env": "P"},
        {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "u", "password_file": "f"},
        {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-256", "username": "u", "password_env": "P"},
        BEARER | {"token_file": "t"},
        BEARER | {"oauth": OAUTH},
        BEARER | {"oauth": OAUTH | {"scope": "a b", "ca_file": "ca"}},
        BEARER | {"oauth": OAUTH | {"token_url": "http://127.0.0.1:8/t"}},
        MSK,
    ],
)
def test_every_way_in_is_accepted(security: dict[str, Any]) -> None:
    SecuritySettings.model_validate(security)


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        (
            TLS_KEY | {"key_password_env": "P", "key_password_file": "f"},
            ["kafka.security: key_password_env and key_password_file exclude each other; keep one"],
        ),
        (
            {"protocol": "SSL", "key_password_env": "P"},
            ["kafka.security.key_password_env: has no effect without key_file; set key_file or remove it"],
        ),
        (
            BEARER | {"username": "u", "password_env": "P"},
            [
                "kafka.security.username: has no effect with mechanism OAUTHBEARER; remove it",
                "kafka.security.password_env: has no effect with mechanism OAUTHBEARER; remove it",
                "kafka.security.token_file: is required with mechanism OAUTHBEARER; set it or oauth",
            ],
        ),
        (
            BEARER | {"token_file": "t", "oauth": OAUTH},
            ["kafka.security: token_file and oauth exclude each other; keep one"],
        ),
        (
            {
                "protocol": "SASL_SSL",
                "mechanism": "PLAIN",
                "username": "u",
                "password_env": "P",
                "token_file": "t",
            },
            ["kafka.security.token_file: has no effect with mechanism PLAIN; remove it"],
        ),
        (
            MSK | {"protocol": "SASL_PLAINTEXT", "username": "u"},
            [
                "kafka.security.username: has no effect with mechanism AWS_MSK_IAM; remove it",
                (
                    "kafka.security.protocol: must be SASL_SSL with mechanism AWS_MSK_IAM (got "
                    "SASL_PLAINTEXT); set it"
                ),
            ],
        ),
        (
            {"protocol": "SASL_SSL", "mechanism": "AWS_MSK_IAM"},
            ["kafka.security.aws_region: is required with mechanism AWS_MSK_IAM; set it"],
        ),
        (
            {"protocol": "SSL", "aws_region": "eu-west-1"},
            [
                (
                    "kafka.security.aws_region: has no effect with protocol SSL; remove it or choose a "
                    "SASL protocol"
                ),
            ],
        ),
        (
            {"protocol": "SASL_SSL", "token_file": "t"},
            ["kafka.security.mechanism: is required with protocol SASL_SSL; set it"],
        ),
        (
            BEARER | {"oauth": {"token_url": "https://a/t", "client_id": "c"}},
            ["kafka.security.oauth.client_secret_env: is required; set it or client_secret_file"],
        ),
        (
            BEARER | {"oauth": OAUTH | {"client_secret_file": "f"}},
            ["kafka.security.oauth: client_secret_env and client_secret_file exclude each other; keep one"],
        ),
        (
            BEARER | {"oauth": OAUTH | {"token_url": "http://localhost/t", "ca_file": "ca"}},
            ["kafka.security.oauth.ca_file: has no effect with an http token_url; remove it"],
        ),
        (
            BEARER | {"oauth": OAUTH | {"token_url": "http://login.example.com/t"}},
            [
                ("kafka.security.oauth.token_url: must be https: the secret would be sent unencrypted"),
            ],
        ),
        (
            BEARER | {"oauth": OAUTH | {"token_url": "https://me:hidden@login.example.com/t"}},
            [
                (
                    "kafka.security.oauth.token_url: must not contain a user or password; use client_id "
                    "and client_secret_env"
                ),
            ],
        ),
        (
            BEARER | {"oauth": OAUTH | {"token_url": "login.example.com"}},
            [
                "kafka.security.oauth.token_url: must be a URL; write for example https://login.example.com/oauth2/token",
            ],
        ),
    ],
)
def test_what_does_not_belong_together_is_refused_by_name(
    security: dict[str, Any], expected: list[str]
) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"kafka": {"security": security}})
    assert explain(caught.value, Settings) == expected


def test_files_count_from_the_folder_of_the_settings(tmp_path: Path) -> None:
    """Those of the token endpoint, too."""
    file = tmp_path / "settings.yaml"
    file.write_text(
        "kafka: {security: {protocol: SASL_SSL, mechanism: OAUTHBEARER, ca_file: ca.pem, oauth: {token_url: "
        "'https://a/t', client_id: c, client_secret_file: secret, ca_file: other.pem}}}"
    )
    security = load_settings(file, {}).kafka.security
    assert security.ca_file == tmp_path / "ca.pem"
    assert security.oauth is not None
    assert security.oauth.client_secret_file == tmp_path / "secret"
    assert security.oauth.ca_file == tmp_path / "other.pem"


def test_a_variable_reaches_into_the_token_endpoint(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(
        "kafka: {security: {protocol: SASL_SSL, mechanism: OAUTHBEARER, oauth: {token_url: 'https://a/t', "
        "client_id: c, client_secret_env: S}}}"
    )
    security = load_settings(file, {"JUDGESTREAM_KAFKA__SECURITY__OAUTH__SCOPE": "kafka read"}).kafka.security
    assert security.oauth is not None
    assert security.oauth.scope == "kafka read"


def test_secrets_come_from_where_the_settings_say(tmp_path: Path) -> None:
    file = tmp_path / "key-password"
    file.write_text("kp\n")
    security = SecuritySettings.model_validate(TLS_KEY | {"key_password_file": file})
    password = resolve_key_password(security)
    assert password is not None
    assert password.get_secret_value() == "kp"
    assert resolve_key_password(SecuritySettings()) is None
    oauth = OAuthSettings.model_validate(OAUTH)
    assert resolve_client_secret(oauth, {"S": "cs"}).get_secret_value() == "cs"
    with pytest.raises(
        SettingsError, match=r"oauth\.client_secret_env: the environment variable S is not set"
    ):
        resolve_client_secret(oauth, {})
