"""An embedded broker with a login: SASL PLAIN with one user, or OAUTHBEARER with one token."""

from __future__ import annotations

from typing import Any, Final

from streams.embedded.broker import EmbeddedBroker
from streams.embedded.wire import Api, Request, Writer

_HANDSHAKE: Final = 17
_AUTHENTICATE: Final = 36
_AUTHENTICATION_FAILED: Final = 58


class GuardedBroker(EmbeddedBroker):
    """Asks for a login and records each, with what was sent; a client without one is not refused."""

    def __init__(self, mechanism: str, secret: str) -> None:
        super().__init__()
        self.mechanism, self.secret = mechanism, secret
        self.logins: list[tuple[bool, bytes]] = []
        served: dict[int, Any] = self._apis._apis
        served[_HANDSHAKE] = Api(_HANDSHAKE, 0, 1, self._shake_hands)  # type: ignore[arg-type] # not in the enum
        served[_AUTHENTICATE] = Api(_AUTHENTICATE, 0, 0, self._authenticate)  # type: ignore[arg-type]

    def client_options(self) -> dict[str, str]:
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": "test",
            "sasl_plain_password": self.secret,
        }

    async def _shake_hands(self, _: Request) -> Writer:
        reply = Writer()
        reply.int16(0)
        reply.array([self.mechanism], reply.string)
        return reply

    async def _authenticate(self, request: Request) -> Writer:
        sent = bytes(request.body.byte_string())
        welcome = self.secret.encode() in sent
        self.logins.append((welcome, sent))
        reply = Writer()
        reply.int16(0 if welcome else _AUTHENTICATION_FAILED)
        reply.string(None if welcome else "no such user or password")
        reply.byte_string(b"")
        return reply
