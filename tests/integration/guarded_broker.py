"""An embedded broker with a login: SASL PLAIN with one user, or OAUTHBEARER with one token."""

from __future__ import annotations

from typing import Any

from aiokafka.errors import SaslAuthenticationFailed
from aiokafka.protocol.admin import SaslAuthenticateRequest_v0, SaslHandShakeRequest_v0

from streams.embedded.broker import EmbeddedBroker
from streams.embedded.wire import Api, Request


class GuardedBroker(EmbeddedBroker):
    """Asks for a login and records each, with what was sent; a client without one is not refused."""

    def __init__(self, mechanism: str, secret: str) -> None:
        super().__init__()
        self.mechanism, self.secret = mechanism, secret
        self.logins: list[tuple[bool, bytes]] = []
        for api in (
            Api(SaslHandShakeRequest_v0, 1, self._shake_hands),
            Api(SaslAuthenticateRequest_v0, 0, self._authenticate),
        ):
            self._apis._apis[api.request.API_KEY] = api

    def client_options(self) -> dict[str, str]:
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": "test",
            "sasl_plain_password": self.secret,
        }

    async def _shake_hands(self, _: Request) -> tuple[Any, ...]:
        return 0, [self.mechanism]

    async def _authenticate(self, request: Request) -> tuple[Any, ...]:
        sent = request.body.sasl_auth_bytes
        welcome = self.secret.encode() in sent
        self.logins.append((welcome, sent))
        return (
            (0, None, b"") if welcome else (SaslAuthenticationFailed.errno, "no such user or password", b"")
        )
