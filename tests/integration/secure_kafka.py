"""Apache Kafka with a listener for each security protocol and an authoriser with ACLs."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trustme
from aiokafka.protocol.admin import (
    CreateAclsRequest_v1,
    DeleteAclsRequest_v1,
    DescribeAclsRequest_v1,
    SaslAuthenticateRequest_v0,
    SaslHandShakeRequest_v1,
)
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.integration.kafka import ApacheKafka
from tests.integration.wire_client import WireClient, init_producer_id
from tests.streams.certificates import Authority, Files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streams.kafka.topics.grants import Grant

ADMIN = "admin"
PASSWORD = "right-password"
AUDIENCE = "kafka"
ISSUER = "https://login.test"
TOKEN_LIFE_SECONDS = 4
"""The lifetime of a token; the broker ends a client's session when its token expires."""

LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SCRAM": "SASL_SSL",
    "TOKEN": "SASL_SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
}
"""Protocols by name. EXPIRED presents an expired certificate, ELSEWHERE one of another host."""


class RsaAuthority(Authority):
    """Java reads its keys."""

    key_type = trustme.KeyType.RSA

    def issue(self, files: str, *names: str, expired: bool = False, **options: Any) -> Files:
        ended = datetime.now(UTC) - timedelta(days=1)
        life = {"not_before": ended - timedelta(days=30), "not_after": ended} if expired else {}
        return super().issue(files, *names, **life, **options)


class TokenIssuer:
    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)

    def key_set(self) -> str:
        numbers = self._key.public_key().public_numbers()
        parts = {
            "n": _base64url(numbers.n.to_bytes(256, "big")),
            "e": _base64url(numbers.e.to_bytes(3, "big")),
        }
        key = {"kty": "RSA", "kid": "test", "alg": "RS256", "use": "sig", **parts}
        return json.dumps({"keys": [key]})

    def token(
        self, subject: str, *, life_seconds: float = TOKEN_LIFE_SECONDS, audience: str = AUDIENCE
    ) -> str:
        now = time.time()
        times = {"iat": int(now) - 1, "exp": int(now + life_seconds)}
        claims = {"sub": subject, "iss": ISSUER, "aud": audience, **times}
        head = {"alg": "RS256", "kid": "test", "typ": "JWT"}
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64url(signature)}"


class SecureKafka(ApacheKafka):
    """A node that denies everything without an ACL, except to itself and `ADMIN`."""

    def __init__(self, directory: Path, users: Iterable[str]) -> None:
        self.users = (*users, ADMIN)
        self.directory = directory
        self.authority = RsaAuthority(directory)
        self.issuer = TokenIssuer()
        keys = directory / "jwks.json"
        keys.write_text(self.issuer.key_set())
        logins = [
            f"--add-scram={mechanism}=[name={user},password={PASSWORD}]"
            for user in self.users
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ]
        super().__init__(
            directory,
            listeners=LISTENERS,
            properties=self._more_properties(keys.as_uri()),
            options=([f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"], logins),
        )

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def allow(self, principal: str, grants: Sequence[Grant]) -> None:
        self._change(CreateAclsRequest_v1(_bindings(principal, grants)), there=True)

    def forbid(self, principal: str, grants: Sequence[Grant]) -> None:
        self._change(DeleteAclsRequest_v1(_bindings(principal, grants)), there=False)

    def _change(self, request: Any, *, there: bool) -> None:
        with self._admin() as client:
            (bindings,), (_, outcomes) = (
                request.to_object().values(),
                client.ask(request).to_object().values(),
            )
            for outcome in outcomes:
                assert outcome["error_code"] == 0, outcome
            # The node's authoriser learns of a change later than the controller.
            deadline = time.monotonic() + 60
            for binding in bindings:
                while bool(client.ask(DescribeAclsRequest_v1(*binding.values())).resources) is not there:
                    assert time.monotonic() < deadline, f"not within a minute: {binding}"
                    time.sleep(0.02)  # poll

    def client_options(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.at("LOGIN"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": ADMIN,
            "sasl_plain_password": PASSWORD,
        }

    @contextlib.contextmanager
    def _admin(self) -> Iterator[WireClient]:
        with WireClient(self.at("LOGIN"), timeout_seconds=5.0) as client:
            assert client.ask(SaslHandShakeRequest_v1("PLAIN")).error_code == 0
            login = client.ask(SaslAuthenticateRequest_v0(f"\0{ADMIN}\0{PASSWORD}".encode()))
            if login.error_code:
                raise ConnectionError(f"no login: {login.error_message}")
            yield client

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), self._admin() as client:
            error, _ = init_producer_id(client)
            return error == 0
        return False

    def _more_properties(self, keys: str) -> str:
        shown = {
            "": self.authority.issue("broker", common_name="broker"),
            "expired.": self.authority.issue("expired", "127.0.0.1", expired=True),
            "elsewhere.": self.authority.issue("elsewhere", "kafka.example.com"),
        }
        protocols = "CLIENTS:PLAINTEXT,DETOUR:PLAINTEXT,CONTROLLER:SSL"
        protocols += "".join(f",{name}:{protocol}" for name, protocol in LISTENERS.items())
        lines = [
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            f"super.users=User:broker;User:{ADMIN}",
            # An anonymous client must not count as the node itself.
            f"listener.security.protocol.map={protocols}",
            "inter.broker.listener.name=MUTUAL",
            "listener.name.controller.ssl.client.auth=required",
            f"listener.name.controller.ssl.principal.mapping.rules={_BY_COMMON_NAME}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.authority.file}",
            "ssl.keystore.type=PEM",
            "listener.name.mutual.ssl.client.auth=required",
            f"listener.name.mutual.ssl.principal.mapping.rules={_BY_COMMON_NAME}",
            "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
            "listener.name.token.sasl.enabled.mechanisms=OAUTHBEARER",
        ]
        for prefix, identity in shown.items():
            both = self.directory / f"keystore-{prefix or 'main'}pem"
            both.write_bytes(identity.key.read_bytes() + identity.certificate.read_bytes())
            place = f"listener.name.{prefix}" if prefix else ""
            lines.append(f"{place}ssl.keystore.location={both}")
            if prefix:
                lines.append(f"{place}ssl.keystore.type=PEM")
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required "
        plain += " ".join(f'user_{user}="{PASSWORD}"' for user in self.users) + ";"
        for listener in ("scram", "login"):
            lines += [
                f"listener.name.{listener}.scram-sha-256.sasl.jaas.config={scram}",
                f"listener.name.{listener}.scram-sha-512.sasl.jaas.config={scram}",
                f"listener.name.{listener}.plain.sasl.jaas.config={plain}",
            ]
        oauth = "listener.name.token.oauthbearer."
        bearer = "org.apache.kafka.common.security.oauthbearer"
        lines += [
            f"{oauth}sasl.jaas.config={bearer}.OAuthBearerLoginModule required;",
            f"{oauth}sasl.server.callback.handler.class={bearer}.OAuthBearerValidatorCallbackHandler",
            # The default validator checks no signature, issuer or audience (seen with 4.1.1).
            f"listener.name.token.sasl.oauthbearer.jwt.validator.class={bearer}.BrokerJwtValidator",
            f"{oauth}sasl.oauthbearer.jwks.endpoint.url={keys}",
            f"{oauth}sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"{oauth}sasl.oauthbearer.expected.issuer={ISSUER}",
            f"{oauth}connections.max.reauth.ms=600000",
        ]
        return "\n".join(lines) + "\n"


_BY_COMMON_NAME = "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT"
_KINDS = {"topic": 2, "group": 3, "cluster": 4}
_OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "DescribeConfigs": 10}
_LITERAL = 3
_ALLOW = 3


def _bindings(principal: str, grants: Sequence[Grant]) -> list[tuple[Any, ...]]:
    return [
        (_KINDS[grant.resource], grant.name, _LITERAL, principal, "*", _OPERATIONS[operation], _ALLOW)
        for grant in grants
        for operation in grant.operations
    ]


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
