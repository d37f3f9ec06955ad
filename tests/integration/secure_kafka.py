"""Apache Kafka with a listener for each security protocol and an authoriser with ACLs."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trustme
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from streams.embedded.wire import Reader, Writer
from tests.integration.kafka import ApacheKafka
from tests.integration.wire_client import WireClient, init_producer_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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


@dataclass(frozen=True, slots=True)
class Identity:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority for the tests.

    Args:
        directory: Where files are written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ca = trustme.CA(key_type=trustme.KeyType.RSA)  # readable by Java
        self.file = directory / "ca.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(
        self,
        stem: str,
        *names: str,
        common_name: str | None = None,
        expired: bool = False,
        password: str = "",
    ) -> Identity:
        """Issue a certificate for names, with its key in PKCS 8."""
        ended = datetime.now(UTC) - timedelta(days=1)
        made = self._ca.issue_cert(
            *names,
            common_name=common_name,
            not_before=ended - timedelta(days=30) if expired else None,
            not_after=ended if expired else None,
            key_type=trustme.KeyType.RSA,
        )
        identity = Identity(self._directory / f"{stem}.pem", self._directory / f"{stem}.key")
        identity.certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
        locked: Any = serialization.NoEncryption()
        if password:
            locked = serialization.BestAvailableEncryption(password.encode())
        identity.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
        )
        return identity


class TokenIssuer:
    """Signs JSON Web Tokens that the broker's validator accepts."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)

    def key_set(self) -> str:
        """The JWK set with which the broker checks signatures."""
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "kid": "test",
            "alg": "RS256",
            "use": "sig",
            "n": _base64url(numbers.n.to_bytes(256, "big")),
            "e": _base64url(numbers.e.to_bytes(3, "big")),
        }
        return json.dumps({"keys": [key]})

    def token(
        self, subject: str, *, life_seconds: float = TOKEN_LIFE_SECONDS, audience: str = AUDIENCE
    ) -> str:
        """A token for a principal."""
        now = time.time()
        claims = {
            "sub": subject,
            "iss": ISSUER,
            "aud": audience,
            "iat": int(now) - 1,
            "exp": int(now + life_seconds),
        }
        head = {"alg": "RS256", "kid": "test", "typ": "JWT"}
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64url(signature)}"


class SecureKafka(ApacheKafka):
    """A node that denies everything without an ACL, except to itself and `ADMIN`.

    Args:
        directory: An empty directory.
        users: The users besides `ADMIN` who log in with `PASSWORD`, by SCRAM and PLAIN.
    """

    def __init__(self, directory: Path, users: Iterable[str]) -> None:
        super().__init__(directory)
        self.users = (*users, ADMIN)
        self.directory = directory
        self.authority = Authority(directory)
        self.issuer = TokenIssuer()

    def at(self, listener: str) -> str:
        """Host and port of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"

    def allow(self, principal: str, grants: Sequence[Grant]) -> None:
        """Add ACLs and wait until they are in force."""
        bindings = _bindings(principal, grants)
        body = Writer()
        body.array(bindings, lambda binding: _write_binding(body, binding))
        with self._admin() as client:
            answer = client.call(_CREATE_ACLS, 1, body)
            answer.int32()
            for error, message in answer.array(lambda: (answer.int16(), answer.nullable_string())):
                assert error == 0, message
            _await_bindings(client, bindings, there=True)

    def forbid(self, principal: str, grants: Sequence[Grant]) -> None:
        """Remove ACLs and wait until they are gone."""
        bindings = _bindings(principal, grants)
        body = Writer()
        body.array(bindings, lambda binding: _write_binding(body, binding))
        with self._admin() as client:
            answer = client.call(_DELETE_ACLS, 1, body)
            answer.int32()
            for error, message, _ in answer.array(
                lambda: (answer.int16(), answer.nullable_string(), answer.array(lambda: _read_match(answer)))
            ):
                assert error == 0, message
            _await_bindings(client, bindings, there=False)

    def client_options(self) -> dict[str, Any]:
        """Options of aiokafka clients that act as `ADMIN`."""
        return {
            "bootstrap_servers": self.at("LOGIN"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": ADMIN,
            "sasl_plain_password": PASSWORD,
        }

    @contextlib.contextmanager
    def _admin(self) -> Iterator[WireClient]:
        """A connection of `ADMIN`."""
        with WireClient(self.at("LOGIN"), timeout_seconds=5.0) as client:
            body = Writer()
            body.string("PLAIN")
            assert client.call(_SASL_HANDSHAKE, 1, body).int16() == 0
            body = Writer()
            body.byte_string(f"\0{ADMIN}\0{PASSWORD}".encode())
            error = client.call(_SASL_AUTHENTICATE, 0, body).int16()
            if error:
                raise ConnectionError(f"no login, error {error}")
            yield client

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), self._admin() as client:
            error, _ = init_producer_id(client)
            return error == 0
        return False

    # Differences from a node without authentication

    def _more_listeners(self) -> Mapping[str, str]:
        return LISTENERS

    def _more_properties(self) -> str:
        shown = {
            "": self.authority.issue("broker", "127.0.0.1", "localhost", common_name="broker"),
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
        keys = self.directory / "jwks.json"
        keys.write_text(self.issuer.key_set())
        oauth = "listener.name.token.oauthbearer."
        bearer = "org.apache.kafka.common.security.oauthbearer"
        lines += [
            f"{oauth}sasl.jaas.config={bearer}.OAuthBearerLoginModule required;",
            f"{oauth}sasl.server.callback.handler.class={bearer}.OAuthBearerValidatorCallbackHandler",
            # The default validator checks no signature, issuer or audience (seen with 4.1.1).
            f"listener.name.token.sasl.oauthbearer.jwt.validator.class={bearer}.BrokerJwtValidator",
            f"{oauth}sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}",
            f"{oauth}sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"{oauth}sasl.oauthbearer.expected.issuer={ISSUER}",
            f"{oauth}connections.max.reauth.ms=600000",
        ]
        return "\n".join(lines) + "\n"

    def _more_java_options(self) -> Sequence[str]:
        keys = (self.directory / "jwks.json").as_uri()
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"]

    def _more_format_options(self) -> Sequence[str]:
        return [
            option
            for user in self.users
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for option in ("--add-scram", f"{mechanism}=[name={user},password={PASSWORD}]")
        ]


_BY_COMMON_NAME = "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT"
_Binding = tuple["Grant", str, str]
_KINDS = {"topic": 2, "group": 3, "cluster": 4}
_OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "DescribeConfigs": 10}
_ALLOW = 3
_LITERAL = 3
_DESCRIBE_ACLS: Any = 29
_CREATE_ACLS: Any = 30
_DELETE_ACLS: Any = 31
_SASL_HANDSHAKE: Any = 17
_SASL_AUTHENTICATE: Any = 36


def _bindings(principal: str, grants: Sequence[Grant]) -> list[_Binding]:
    return [(grant, operation, principal) for grant in grants for operation in grant.operations]


def _write_binding(body: Writer, binding: _Binding) -> None:
    grant, operation, principal = binding
    body.int8(_KINDS[grant.resource])
    body.string(grant.name)
    body.int8(_LITERAL)
    body.string(principal)
    body.string("*")
    body.int8(_OPERATIONS[operation])
    body.int8(_ALLOW)


def _await_bindings(
    client: WireClient, bindings: Sequence[_Binding], *, there: bool, deadline_seconds: float = 60.0
) -> None:
    """Wait for the node's authoriser, which learns of a change later than the controller."""
    deadline = time.monotonic() + deadline_seconds
    for binding in bindings:
        body = Writer()
        _write_binding(body, binding)
        while _is_listed(client, body) is not there:
            assert time.monotonic() < deadline, f"not within {deadline_seconds} s: {binding}"
            time.sleep(0.02)  # poll


def _is_listed(client: WireClient, body: Writer) -> bool:
    answer = client.call(_DESCRIBE_ACLS, 1, body)
    answer.int32()
    error, message = answer.int16(), answer.nullable_string()
    assert error == 0, message
    return answer.int32() > 0  # the length of the list


def _read_match(answer: Reader) -> None:
    answer.int16()
    answer.nullable_string()
    answer.int8()
    answer.string()
    answer.int8()
    answer.string()
    answer.string()
    answer.int8()
    answer.int8()


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
