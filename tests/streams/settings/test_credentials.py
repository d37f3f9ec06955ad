from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from streams.errors import SettingsError
from streams.settings import EndpointSettings, Secret, SecuritySettings, read_secret


def revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def test_each_place(tmp_path: Path) -> None:
    """A secret is a value, a variable, a file with its line end removed, or absent."""
    file = tmp_path / "key"
    file.write_text("from-file\n")
    assert revealed(Secret(value=SecretStr("given")).read("p")) == "given"
    assert revealed(Secret(env="KEY").read("p", {"KEY": "from-env"})) == "from-env"
    assert revealed(Secret(file=file).read("p")) == "from-file"
    assert read_secret(None, "p") is None


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "x")
    assert revealed(Secret(env="SOME_KEY").read("p")) == "x"


def test_an_empty_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"judge\.api_key_env: the environment variable KEY is not set or empty"
    ):
        Secret(env="KEY").read("judge.api_key", {"KEY": " "})
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(SettingsError, match=r"p_file: .*empty is not set or empty"):
        Secret(file=empty).read("p")
    with pytest.raises(SettingsError, match=r"p_file: .* cannot be read"):
        Secret(file=tmp_path / "none").read("p")


def test_a_file_that_is_no_secret(tmp_path: Path) -> None:
    binary, large = tmp_path / "binary", tmp_path / "large"
    binary.write_bytes(b"\xff")
    large.write_bytes(b"x" * 65_537)
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        Secret(file=binary).read("p")
    with pytest.raises(SettingsError, match="is larger than 65536 bytes"):
        Secret(file=large).read("p")


def test_of_sections() -> None:
    """`NAME_env` and `NAME_file` are the sources of a section's secret, also in the constructor."""
    endpoint = EndpointSettings(name="a", model="m", api_key_env="KEY")  # type: ignore[call-arg]
    assert endpoint.api_key == Secret(env="KEY")
    security = SecuritySettings.model_validate(
        {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password_file": "pw"}
    )
    assert security.password == Secret(file=Path("pw"))
    assert SecuritySettings().password is None
