"""A login in front of an embedded broker: SASL PLAIN with one user, or OAUTHBEARER with one token."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from streams.embedded.broker import EmbeddedBroker
from tests.listening import listening

_API_VERSIONS: Final = 18
_HANDSHAKE: Final = 17
_AUTHENTICATE: Final = 36
_AUTHENTICATION_FAILED: Final = 58


class FrontedBroker(EmbeddedBroker):
    """Announces the address of the front to its clients."""

    front: tuple[str, int] | None = None

    def _address(self) -> tuple[str, int]:
        return self.front or super()._address()


@dataclass
class LoginFront:
    """The proxy that clients connect to."""

    mechanism: str
    secret: str
    bootstrap_servers: str = ""
    logins: list[tuple[bool, bytes]] = field(default_factory=list)

    def client_options(self) -> dict[str, str]:
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": "test",
            "sasl_plain_password": self.secret,
        }

    async def serve(
        self, target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Authenticate a client, then forward its bytes."""
        there, back = await asyncio.open_connection(*target)
        try:
            if await self._log_in(reader, writer, there, back):
                await asyncio.gather(_pump(reader, back), _pump(there, writer))
        except (OSError, EOFError):
            pass  # the client disconnected
        finally:
            back.close()
            writer.close()

    async def _log_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> bool:
        while True:
            frame = await _frame(reader)
            key, version, correlation = struct.unpack(">hhi", frame[:8])
            name_length = max(0, struct.unpack(">h", frame[8:10])[0])
            body = frame[10 + name_length :]
            if key == _API_VERSIONS:
                _send(back, frame)
                answer = await _frame(there)
                # Version 0: correlation id, error, count and 6 bytes each; two entries are added.
                assert version == 0
                (count,) = struct.unpack(">i", answer[6:10])
                more = struct.pack(">hhhhhh", _HANDSHAKE, 0, 1, _AUTHENTICATE, 0, 0)
                _send(writer, answer[:6] + struct.pack(">i", count + 2) + answer[10:] + more)
            elif key == _HANDSHAKE:
                mechanism = self.mechanism.encode()
                _send(writer, struct.pack(">ihih", correlation, 0, 1, len(mechanism)) + mechanism)
            elif key == _AUTHENTICATE:
                sent = body[4:]
                welcome = self.secret.encode() in sent
                self.logins.append((welcome, sent))
                error = 0 if welcome else _AUTHENTICATION_FAILED
                said = b"" if welcome else b"no such user or password"
                _send(
                    writer, struct.pack(">ihh", correlation, error, len(said)) + said + struct.pack(">i", 0)
                )
                return welcome
            else:
                return False


def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(262_144):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def login_front(mechanism: str, secret: str) -> AsyncIterator[LoginFront]:
    """Run a broker behind a login."""
    front = LoginFront(mechanism, secret)
    async with FrontedBroker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        async with listening(partial(front.serve, (host, int(port)))) as front_port:
            broker.front = ("127.0.0.1", front_port)
            front.bootstrap_servers = f"127.0.0.1:{front_port}"
            yield front
