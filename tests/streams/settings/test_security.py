from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams.settings import SecuritySettings, load_settings

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


def test_files_count_from_the_folder_of_the_settings(tmp_path: Path) -> None:
    """Relative paths are resolved against the folder of the settings file."""
    file = tmp_path / "settings.yaml"
    file.write_text(
        "kafka: {security: {protocol: SASL_SSL, mechanism: OAUTHBEARER, ca_file: ca.pem, oauth: {token_url: "
        "'https://a/t', client_id: c, client_secret_file: secret, ca_file: other.pem}}}"
    )
    security = load_settings(file, {}).kafka.security
    assert security.ca_file == tmp_path / "ca.pem"
    assert security.oauth is not None
    assert security.oauth.client_secret.file == tmp_path / "secret"
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
