"""OAuth tokens: reading, fetching, renewal and errors."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from streams.errors import SettingsError, TokenError
from streams.kafka.access.tokens import ClientCredentialsTokens, FileTokens, MskTokens, expiry_of, open_tokens
from streams.settings import OAuthSettings, SecuritySettings
from tests.loopback import on_loopback

SECRET = "s3cret/with+signs"


def jwt(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.signature"


class Endpoint:
    """A token endpoint with a configurable answer."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: Any = {"access_token": "first", "expires_in": 100}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""

    async def reply(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append((request.headers["Authorization"], form))
        if isinstance(self.answer, str):
            return web.Response(status=self.status, text=self.answer)
        return web.json_response(self.answer, status=self.status)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    app = web.Application()
    app.router.add_post("/token", endpoint.reply)
    async with on_loopback(app) as address:
        endpoint.url = f"{address}/token"
        yield endpoint


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def tokens_of(url: str, clock: Clock, **oauth: Any) -> ClientCredentialsTokens:
    settings = OAuthSettings.model_validate(
        {"token_url": url, "client_id": "me:you", "client_secret_env": "S", **oauth}
    )
    return ClientCredentialsTokens(settings, env={"S": SECRET}, now=clock)


async def test_a_token_is_used_for_four_fifths_of_its_life(endpoint: Endpoint) -> None:
    """A token is renewed after four fifths of its lifetime: fetched at 1000 s, renewed at 1080 s."""
    clock = Clock()
    tokens = tokens_of(endpoint.url, clock, scope="a b")
    assert await tokens.token() == "first"
    endpoint.answer = {"access_token": "second", "expires_in": "100"}
    clock.now += 79
    assert await tokens.token() == "first"
    clock.now += 1
    assert await tokens.token() == "second"
    login, form = endpoint.asked[0]
    # Id and secret are form-encoded before they are joined (RFC 6749, section 2.3.1).
    assert base64.b64decode(login.removeprefix("Basic ")) == b"me%3Ayou:s3cret%2Fwith%2Bsigns"
    assert form == {"grant_type": "client_credentials", "scope": "a b"}
    assert len(endpoint.asked) == 2


async def test_the_last_token_goes_on_while_it_holds(endpoint: Endpoint) -> None:
    """A failing endpoint is tolerated until the last token expires: at 90 s of 100 s, not at 100 s."""
    clock = Clock()
    tokens = tokens_of(endpoint.url, clock)
    assert await tokens.token() == "first"
    endpoint.status, endpoint.answer = 503, "busy"
    clock.now += 90
    assert await tokens.token() == "first"
    clock.now += 10
    with pytest.raises(TokenError, match="answers with status 503") as caught:
        await tokens.token()
    assert not caught.value.lasting
    endpoint.status, endpoint.answer = 200, {"access_token": "second", "expires_in": 100}
    assert await tokens.token() == "second"


@pytest.mark.parametrize(
    ("status", "answer", "expected", "lasting"),
    [
        (
            401,
            {"error": "invalid_client", "error_description": f"bad {SECRET}"},
            r"refuses the client 'me:you' \(status 401, invalid_client: bad \*\*\*\)",
            True,
        ),
        (200, "<html>", r"status 200 and no token \(without a reason\)", True),
        (404, "none", "status 404 and no token", True),
        (429, {}, "status 429 and no token", False),
    ],
)
async def test_what_is_no_token_is_explained_without_the_secret(
    endpoint: Endpoint, status: int, answer: Any, expected: str, lasting: bool
) -> None:
    endpoint.status, endpoint.answer = status, answer
    with pytest.raises(TokenError, match=expected) as caught:
        await tokens_of(endpoint.url, Clock()).token()
    assert caught.value.lasting is lasting
    assert SECRET not in str(caught.value)


async def test_an_endpoint_that_is_away_may_come_back() -> None:
    with pytest.raises(TokenError, match="cannot be reached") as caught:
        await tokens_of("http://127.0.0.1:1/token", Clock()).token()
    assert not caught.value.lasting


async def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = FileTokens(file, clock=lambda: 1000.0)
    with pytest.raises(TokenError, match=r"kafka\.security\.token_file: .* cannot be read"):
        await tokens.token()
    file.write_text("opaque\n")
    assert await tokens.token() == "opaque"
    file.write_text(jwt(exp=1001))
    assert await tokens.token() == jwt(exp=1001)
    file.write_text(jwt(exp=990))
    with pytest.raises(TokenError, match="expired 10 s ago"):
        await tokens.token()


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (jwt(exp=5), 5.0),
        (jwt(sub="a"), None),
        (jwt(exp="5"), None),
        ("a.b", None),
        ("a.!.c", None),
        ("a.W10.c", None),  # the claims are []
    ],
)
def test_only_a_json_web_token_tells_its_end(token: str, expected: float | None) -> None:
    assert expiry_of(token) == expected


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(SettingsError, match=r"install the extra msk: pip install \"judgestream\[msk\]\""):
        MskTokens("eu-west-1")


async def test_tokens_for_msk_are_signed_for_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """The AWS signer gives the token and its expiry in milliseconds; its failure may pass."""
    calls: list[str] = []

    def sign(region: str) -> tuple[str, float]:
        calls.append(region)
        if len(calls) > 1:
            raise RuntimeError("no credentials")
        return "signed", (time.time() + 900) * 1000

    module: Any = ModuleType("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    module.generate_auth_token = sign
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", SimpleNamespace(MSKAuthTokenProvider=module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    security = SecuritySettings(protocol="SASL_SSL", mechanism="AWS_MSK_IAM", aws_region="eu-west-1")
    tokens = open_tokens(security, tls=lambda _: None)
    assert tokens is not None
    assert await tokens.token() == "signed"
    assert await tokens.token() == "signed"
    assert calls == ["eu-west-1"]
    with pytest.raises(TokenError, match=r"RuntimeError: no credentials"):
        await MskTokens("eu-west-1").token()
