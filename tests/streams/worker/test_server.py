from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectorCertificateError, ClientError, ClientSession, TCPConnector
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from structlog.testing import capture_logs

from judge.endpoints.options import is_loopback
from streams.errors import SettingsError, StreamsError
from streams.settings.outputs import BasicAuthSettings, TelemetrySettings, TlsSettings
from streams.web.port import BasicAuth, open_access, server_tls
from tests.streams.certificates import Authority
from tests.streams.worker.serving import served

PATHS = ("/", "/status.js", "/assets/style.css", "/status.json", "/metrics", "/healthz", "/readyz")
PASSWORD = "correct horse"


def basic_auth(**places: Any) -> BasicAuth:
    where = places or {"password": SecretStr(PASSWORD)}
    return BasicAuth(BasicAuthSettings.model_validate({"username": "ops", **where}), {"PAGE": PASSWORD})


def header(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def sends(password: str) -> dict[str, str]:
    return {"Authorization": header(f"ops:{password}")}


async def test_the_port_is_only_read_and_kept_nowhere() -> None:
    async with served() as url, ClientSession() as session:
        for path, status in {**dict.fromkeys(PATHS, 200), "/readyz": 503, "/none": 404}.items():
            for method in ("GET", "HEAD"):
                async with session.request(method, url + path) as answer:
                    assert answer.status == status, path
                    assert answer.headers["X-Content-Type-Options"] == "nosniff"
                    assert answer.headers["Cache-Control"] == "no-store"
                    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                    assert "unsafe" not in answer.headers["Content-Security-Policy"]
                    assert "Server" not in answer.headers
        for method, path in product(("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"), PATHS):
            async with session.request(method, url + path) as answer:
                assert answer.status == 405
                assert set(answer.headers["Allow"].split(",")) == {"GET", "HEAD"}


async def test_a_password_is_required_except_by_probes() -> None:
    async with served(auth=basic_auth()) as url, ClientSession() as session:
        for path in (*PATHS, "/none"):
            async with session.get(url + path) as answer:
                if path in {"/healthz", "/readyz"}:
                    assert answer.status in {200, 503}
                    continue
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"] == 'Basic realm="judgestream", charset="UTF-8"'
                assert answer.headers["Cache-Control"] == "no-store"
            async with session.get(url + path, headers=sends("wrong")) as answer:
                assert answer.status == 401
            async with session.get(url + path, headers=sends(PASSWORD)) as answer:
                assert answer.status == (404 if path == "/none" else 200)
        async with session.post(url + "/metrics") as answer:
            assert answer.status == 401  # without the password each method gets 401
        async with session.post(url + "/metrics", headers=sends(PASSWORD)) as answer:
            assert answer.status == 405


@pytest.mark.parametrize(
    "sent",
    [
        None, "", "Basic", "Basic ", "Basic !!!", "Basic é", "Bearer " + PASSWORD, header(""),
        header("ops"), header("ops:"), header(":" + PASSWORD), header(f"ops:{PASSWORD} "),
        header(f"Ops:{PASSWORD}"), header(f"ops:{PASSWORD}") + "x" * 5000,
    ],
)  # fmt: skip
def test_what_is_not_the_password_is_refused(sent: str | None) -> None:
    assert not basic_auth().admits(sent)


@given(st.text(max_size=30), st.text(max_size=30))
def test_only_the_pair_itself_is_admitted(user: str, password: str) -> None:
    with contextlib.suppress(UnicodeEncodeError):
        sent = header(f"{user}:{password}")
        assert basic_auth().admits(sent) == (f"{user}:{password}" == f"ops:{PASSWORD}")
    assert basic_auth().admits(header(f"ops:{PASSWORD}"))
    # RFC 7617 with charset UTF-8: the first colon ends the user name.
    of_any_script = basic_auth(password=SecretStr("pässwörd:日本"))
    assert of_any_script.admits(header("ops:pässwörd:日本").replace("Basic", "bAsIc"))


def test_where_the_password_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    auth = BasicAuth(BasicAuthSettings.model_validate({"username": "ops", "password_file": file}), {})
    assert auth.admits(header("ops:first"))
    file.write_text("second\n")
    assert not auth.admits(header("ops:first"))
    assert auth.admits(header("ops:second"))
    file.unlink()
    with capture_logs() as logs:
        assert auth.admits(header("ops:second"))
    assert "keeping the old one" in logs[0]["event"]


def _trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.file)


async def test_tls_and_a_renewed_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("server")
    tls = server_tls(TlsSettings(certificate_file=files.certificate, key_file=files.key))

    async def shown(url: str) -> bytes:
        host, _, port = url.removeprefix("https://").partition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=_trusting(authority))
        der: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return der

    async with served(tls=tls) as url:
        assert url.startswith("https://")
        first = await shown(url)
        authority.issue("server")
        second = await shown(url)
        assert second != first
        files.certificate.write_text("half a certifica")
        with capture_logs() as logs:
            assert await shown(url) == second
        assert any("keeping the old ones" in one["event"] for one in logs)
        async with ClientSession() as session:
            with pytest.raises(ClientConnectorCertificateError):
                await session.get(url + "/healthz")
            with pytest.raises(ClientError):
                await session.get(url.replace("https", "http") + "/healthz")


async def test_client_certificates(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    server = authority.issue("server")
    trusted = tmp_path / "clients.pem"
    trusted.write_bytes(authority.file.read_bytes())
    tls = server_tls(
        TlsSettings(certificate_file=server.certificate, key_file=server.key, client_ca_file=trusted)
    )

    async def gets_in(by: Authority | None) -> bool:
        context = _trusting(authority)
        if by is not None:
            files = by.issue("client", "client.example")
            context.load_cert_chain(files.certificate, files.key)
        try:
            async with (
                ClientSession(connector=TCPConnector(ssl=context)) as session,
                session.get(url + "/healthz") as answer,
            ):
                return answer.status == 200
        except (ClientError, OSError):
            return False

    async with served(tls=tls) as url:
        assert [await gets_in(one) for one in (authority, other, None)] == [True, False, False]
        trusted.write_bytes(other.file.read_bytes())
        assert [await gets_in(one) for one in (authority, other, None)] == [False, True, False]


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, two = authority.issue("one"), authority.issue("two")
    with pytest.raises(SettingsError, match=r"two\.key cannot be used \(KEY_VALUES_MISMATCH\)"):
        server_tls(TlsSettings(certificate_file=one.certificate, key_file=two.key))
    with pytest.raises(SettingsError, match=r"none\.pem .* cannot be used \(No such file"):
        server_tls(TlsSettings(certificate_file=tmp_path / "none.pem", key_file=one.key))
    with pytest.raises(SettingsError, match=r"telemetry\.tls\.client_ca_file: .*cannot be used"):
        server_tls(TlsSettings(certificate_file=one.certificate, key_file=one.key, client_ca_file=one.key))


def test_the_settings_choose_password_and_tls(tmp_path: Path) -> None:
    assert open_access(TelemetrySettings()) == (None, None)
    files = Authority(tmp_path).issue("server")
    basic = {"username": "ops", "password_env": "PAGE"}
    tls_files = {"certificate_file": files.certificate, "key_file": files.key}
    telemetry = TelemetrySettings.model_validate({"basic_auth": basic, "tls": tls_files})
    auth, tls = open_access(telemetry, {"PAGE": "x"})
    assert (auth is not None and auth.admits(header("ops:x")), tls is not None) == (True, True)


async def test_an_open_port_is_logged_at_start() -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - the tested address
    guarded = {"auth": basic_auth()}
    for host, access, lines in ((everywhere, {}, 1), ("127.0.0.1", {}, 0), (everywhere, guarded, 0)):
        with capture_logs() as logs:
            async with served(host, **access):
                pass
        assert len(logs) == lines
    assert [is_loopback(host) for host in ("127.0.0.9", "::1", "localhost", "::", "10.0.0.1", "host")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


async def test_a_port_that_is_taken() -> None:
    async with served() as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(StreamsError, match=rf"telemetry\.port: cannot listen on 127\.0\.0\.1:{port}"):
            async with served(port=port):
                pass
