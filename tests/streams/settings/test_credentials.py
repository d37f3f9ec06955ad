from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from streams.errors import SettingsError
from streams.settings import (
    EndpointSettings,
    SecuritySettings,
    resolve_api_key,
    resolve_password,
    resolve_secret,
)


def revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def test_each_place(tmp_path: Path) -> None:
    """A secret is a value, a variable, a file with its line end removed, or absent."""
    file = tmp_path / "key"
    file.write_text("from-file\n")
    assert revealed(resolve_secret("p", value=SecretStr("given"))) == "given"
    assert revealed(resolve_secret("p", env_name="KEY", env={"KEY": "from-env"})) == "from-env"
    assert revealed(resolve_secret("p", file=file)) == "from-file"
    assert resolve_secret("p") is None


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "x")
    assert revealed(resolve_secret("p", env_name="SOME_KEY")) == "x"


def test_an_empty_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"judge\.api_key_env: the environment variable KEY is not set or empty"
    ):
        resolve_secret("judge.api_key", env_name="KEY", env={"KEY": " "})
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(SettingsError, match=r"p_file: .*empty is not set or empty"):
        resolve_secret("p", file=empty)
    with pytest.raises(SettingsError, match=r"p_file: .* cannot be read"):
        resolve_secret("p", file=tmp_path / "none")


def test_a_file_that_is_no_secret(tmp_path: Path) -> None:
    binary, large = tmp_path / "binary", tmp_path / "large"
    binary.write_bytes(b"\xff")
    large.write_bytes(b"x" * 65_537)
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        resolve_secret("p", file=binary)
    with pytest.raises(SettingsError, match="is larger than 65536 bytes"):
        resolve_secret("p", file=large)


def test_of_sections() -> None:
    endpoint = EndpointSettings(name="a", model="m", api_key_env="KEY")
    assert revealed(resolve_api_key(endpoint, {"KEY": "k"})) == "k"
    with pytest.raises(SettingsError, match=r"judge\.endpoints \(a\)\.api_key_env"):
        resolve_api_key(endpoint, {})
    security = SecuritySettings(protocol="SASL_SSL", mechanism="PLAIN", username="u", password_env="PW")
    assert revealed(resolve_password(security, {"PW": "p"})) == "p"
    assert resolve_password(SecuritySettings()) is None
