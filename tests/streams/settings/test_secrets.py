from __future__ import annotations

import io
import json
import logging
import ssl
import traceback
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
import trustme
from pydantic import SecretStr

from streams.errors import SettingsError
from streams.settings.base import Secret, read_secret
from streams.settings.certificates import RotatingContext, validity_of
from streams.settings.judge import EndpointSettings
from streams.settings.load import load_settings, mask, secrets_of
from streams.settings.outputs import TelemetrySettings
from streams.settings.tree import Settings
from streams.telemetry.logs import set_up_logs, settings_masker
from tests.streams.settings.secret_places import places

LOGIN = {
    "protocol": "SASL_SSL",
    "mechanism": "SCRAM-SHA-256",
    "username": "u",
    "certificate_file": "c",
    "key_file": "k",
}
OAUTH = {"token_url": "https://login.example.com/token", "client_id": "c", "client_secret_env": "V_OAUTH"}
DOCUMENTS: tuple[dict[str, Any], ...] = (
    {
        "kafka": {"security": LOGIN | {"password_env": "V_KAFKA", "key_password_env": "V_KEY"}},
        "ingest": {"registry": {"url": "https://registry", "auth": {"secret_env": "V_REGISTRY"}}},
        "judge": {"endpoints": [{"name": "a", "model": "m", "api_key_env": "V_JUDGE"}], "budget": "none"},
        "telemetry": {"basic_auth": {"username": "u", "password_env": "V_PAGE"}},
        "review": {"basic_auth": {"username": "u", "password_env": "V_REVIEW"}},
        "sinks": {"hook": {"kind": "webhook", "url": "https://hook", "secret_env": "V_SINK"}},
    },
    {"kafka": {"security": {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "oauth": OAUTH}}},
    {"kafka": {"security": {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "token_env": "V_TOKEN"}}},
)
"""Together they set every secret; logins exclude each other."""


def sources(document: Any, path: str = "") -> Iterator[tuple[str, str, Any, str]]:
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in children:
        part = key if isinstance(document, dict) and path != "sinks" else "*"
        if isinstance(value, dict | list):
            yield from sources(value, f"{path}.{part}".lstrip("."))
        elif str(value).startswith("V_"):
            yield f"{path}.{str(key).removesuffix('_env')}", value, document, str(key)


ALL = [(index, *found[:2]) for index, one in enumerate(DOCUMENTS) for found in sources(one)]


def test_the_documents_set_every_secret() -> None:
    """A secret that is added to the settings must be added here, too."""
    assert {place for _, place, _ in ALL} == set(places(Settings))


@pytest.mark.parametrize(("index", "place", "variable"), ALL)
def test_no_secret_may_stand_in_the_file(index: int, place: str, variable: str, tmp_path: Any) -> None:
    document = deepcopy(DOCUMENTS[index])
    (holder, key) = next((held, name) for at, _, held, name in sources(document) if at == place)
    del holder[key]
    holder[key.removesuffix("_env")] = "literal-4711"
    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps(document))
    with pytest.raises(SettingsError) as refused:
        load_settings(file, {variable: "x"})
    name = key.removesuffix("_env")
    assert f"{name}: must not be in the file; use {name}_env" in str(refused.value)
    assert "literal-4711" not in str(refused.value)


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("index", range(len(DOCUMENTS)))
def test_no_secret_is_written_anywhere(index: int, form: str) -> None:
    env = {variable: f"secret-of-{variable}" for at, _, variable in ALL if at == index}
    settings = Settings.model_validate(DOCUMENTS[index])
    assert {secret for _, secret in secrets_of(settings, env)} == set(env.values())
    masker, stream = settings_masker(settings, env), io.StringIO()
    telemetry = TelemetrySettings.model_validate({"log_format": form, "log_level": "debug"})
    set_up_logs(telemetry, stream, masker=masker)
    for secret in env.values():
        structlog.stdlib.get_logger("ours").debug(secret, value=secret, deep={"in": [secret]})
        logging.getLogger("theirs").warning("with %s", secret)
        try:
            int(secret)
        except ValueError:
            structlog.stdlib.get_logger("ours").exception("failed")
            stream.write(masker.mask(traceback.format_exc()))
    stream.write(json.dumps(mask(settings)) + repr(settings))
    for secret in env.values():
        assert secret not in stream.getvalue()
    assert stream.getvalue().count("***") >= 4 * len(env)


def test_secrets_of_variables_stay_text_and_are_masked() -> None:
    sink = {"KIND": "langfuse", "URL": "https://x", "PUBLIC_KEY": "123", "SECRET": "very secret"}
    settings = load_settings(
        None,
        {
            "JUDGESTREAM_KAFKA__SECURITY": "{protocol: SASL_SSL, mechanism: PLAIN, username: u}",
            "JUDGESTREAM_KAFKA__SECURITY__PASSWORD": "0123",
            "JUDGESTREAM_JUDGE__ENDPOINTS": '[{"name": "a", "model": "m", "api_key": "sk-1"}]',
            **{f"JUDGESTREAM_SINKS__ONE__{name}": value for name, value in sink.items()},
        },
    )
    assert dict(secrets_of(settings, {})) == {
        "kafka.security.password": "0123",
        "judge.endpoints.0.api_key": "sk-1",
        "sinks.one.secret": "very secret",
    }
    shown = mask(settings)
    assert shown["kafka"]["security"]["password"] == shown["sinks"]["one"]["secret"] == "**********"
    assert not [one for one in ("0123", "sk-1", "very secret") if one in json.dumps(shown) + repr(settings)]


def test_a_secret_is_read_from_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text("from-file\n")
    monkeypatch.setenv("KEY", "of the process")
    for secret, env, expected in (
        (Secret(value=SecretStr("given")), None, "given"),
        (Secret(env="KEY"), {"KEY": "from-env"}, "from-env"),
        (Secret(env="KEY"), None, "of the process"),
        (Secret(file=file), None, "from-file"),
    ):
        assert secret.read("p", env).get_secret_value() == expected
    assert read_secret(None, "p") is None
    endpoint = EndpointSettings(name="a", model="m", api_key_env="KEY")  # type: ignore[call-arg]
    assert endpoint.api_key == Secret(env="KEY")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read"),
        (b"", "is not set or empty"),
        (b"\xff", "is not UTF-8 text"),
        (b"x" * 65_537, "is larger than 65536 bytes"),
    ],
)
def test_a_source_without_a_secret_is_an_error(tmp_path: Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=f"p_file: .*{problem}"):
        Secret(file=file).read("p")
    with pytest.raises(SettingsError, match="p_env: the environment variable KEY is not set or empty"):
        Secret(env="KEY").read("p", {"KEY": " "})


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2049, 12, 31, tzinfo=UTC)),
        # From 2050 a year has four digits (RFC 5280, section 4.1.2.5).
        (datetime(2051, 1, 1, tzinfo=UTC), datetime(2060, 6, 7, tzinfo=UTC)),
    ],
)
def test_both_dates_are_read(tmp_path: Path, begins: datetime, ends: datetime) -> None:
    file = tmp_path / "cert.pem"
    made = trustme.CA().issue_cert("a.test", not_before=begins, not_after=ends)
    file.write_bytes(b"leading text\n" + made.cert_chain_pems[0].bytes())
    assert validity_of(file) == (begins, ends)


@pytest.mark.parametrize(
    "text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"]
)
def test_what_is_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cert.pem"
    file.write_text(text)
    with pytest.raises(ValueError, match="has no readable certificate"):
        validity_of(file)


def _wrap(context: ssl.SSLContext) -> ssl.SSLContext:
    return context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="a.test").context


def test_new_connections_have_the_new_files(tmp_path: Path) -> None:
    """Of a mounted folder, which is a link that changes; an invalid file leaves the old context in force."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        trustme.CA().cert_pem.write_to_path(tmp_path / name / "ca.pem")
    link = tmp_path / "current"
    link.symlink_to("one")
    file = link / "ca.pem"

    def build() -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=str(file))
        except (OSError, ValueError) as error:
            raise SettingsError([str(error)]) from error

    context = RotatingContext(build, [file])
    first = _wrap(context)
    assert _wrap(context) is first
    file.write_text("half a certificate")
    assert _wrap(context) is first
    trustme.CA().cert_pem.write_to_path(file)
    second = _wrap(context)
    assert second is not first
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(link)
    third = _wrap(context)
    assert third is not second
    file.unlink()
    assert _wrap(context) is third
