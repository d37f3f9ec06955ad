"""Connections that are refused, slow, end, or whose start is cancelled, and what is said of them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed, UnsupportedSaslMechanismError
from aiokafka.protocol.admin import ApiVersionRequest, SaslAuthenticateRequest
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest
from cryptography.hazmat.primitives import serialization

from streams.embedded.broker import EmbeddedBroker
from streams.errors import KafkaAccessError, SettingsError
from streams.kafka.access import connection as module
from streams.kafka.access import errors
from streams.kafka.access.access import client_options
from streams.kafka.access.connection import (
    REFUSED_SECONDS,
    Admission,
    BrokerConnection,
    Password,
    open_connection,
)
from streams.kafka.reader import TopicReader, stop_consumer
from streams.kafka.topics.admin import ensure_topics
from streams.settings.broker import KafkaSettings
from tests.listening import Serve, listening
from tests.streams.certificates import Authority
from tests.threaded_broker import broker_in_thread

SCRAM = {"protocol": "SASL_PLAINTEXT", "mechanism": "SCRAM-SHA-512", "username": "u"}


def kafka_of(**security: object) -> KafkaSettings:
    return KafkaSettings.model_validate({"security": security})


def test_a_worker_gives_up_when_every_connection_is_refused_for_long() -> None:
    """For 60 s; a successful login resets the time, and errors that may pass do not count."""
    now = 0.0
    admission = Admission(kafka_of(**SCRAM, password_env="P"), now=lambda: now)
    given_up: list[KafkaAccessError] = []
    admission.on_refused = given_up.append
    refusal = SaslAuthenticationFailed("no")
    admission.failed(refusal)
    now = REFUSED_SECONDS - 1
    admission.failed(refusal)
    assert "check kafka.security.username" in str(admission.trouble)
    admission.succeeded()
    assert admission.trouble is None
    now += 1
    admission.failed(refusal)
    now += REFUSED_SECONDS
    admission.failed(ConnectionRefusedError())
    assert given_up == []
    admission.failed(refusal)
    assert "refuses the user 'u'" in str(given_up[0])


def test_a_password_is_read_again_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    kafka = kafka_of(**SCRAM, password_file=file)
    with pytest.raises(SettingsError, match=r"kafka\.security\.password_file"):
        client_options(kafka)
    file.write_text("one\n")
    password = Password(kafka)
    file.write_text("two")
    assert password.read() == "two"
    file.unlink()
    assert password.read() == "two"
    assert "two" not in repr(password)


def test_every_explanation_has_its_words() -> None:
    """Each row of the table is formatted, with and without what an error or the settings may lack."""
    for row, security in itertools.product(errors._TABLE, ({}, SCRAM | {"password_env": "P"})):
        words = errors._words(Exception(), kafka_of(**security))
        assert row.reason.format(**words)
        assert row.remedy.format(**words)


def test_logins_are_kept_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    request = SaslAuthenticateRequest(b"\0user\0hidden").prepare({36: (0, 0)})
    with caplog.at_level(logging.DEBUG, "aiokafka.conn"):
        logging.getLogger("aiokafka.conn").debug("Request to %s:%d %d: %s", "h", 1, 2, request)
        logging.getLogger("aiokafka.conn").debug("Closing %s", "h")
    messages = [record.getMessage() for record in caplog.records if record.name == "aiokafka.conn"]
    assert messages == ["Closing h"]


def test_an_encrypted_key_without_its_password_is_named(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue("c")
    private = serialization.load_pem_private_key(own.key.read_bytes(), None)
    sealed = serialization.BestAvailableEncryption(b"kp")
    form = serialization.PrivateFormat.PKCS8
    own.key.write_bytes(private.private_bytes(serialization.Encoding.PEM, form, sealed))
    files = {"protocol": "SSL", "certificate_file": own.certificate, "key_file": own.key}
    for wrong in ({}, {"key_password_env": "P"}):
        with pytest.raises(SettingsError, match=r"cannot be used .*c\.key, and key_password_env or"):
            client_options(kafka_of(**files, **wrong), {"P": "other"})
    assert client_options(kafka_of(**files, key_password_env="P"), {"P": "kp"})["ssl_context"] is not None


@pytest.mark.parametrize("rounds", range(4))
async def test_a_request_on_a_connection_that_has_just_ended_is_a_failed_connection(rounds: int) -> None:
    """Clients retry this error only; another one would end the heartbeats, metadata updates or commits."""
    with broker_in_thread() as address:
        connection = await open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        connection._writer.transport.abort()
        for _ in range(rounds):
            await asyncio.sleep(0)
        with pytest.raises(KafkaConnectionError):
            await connection.send(ApiVersionRequest())
        await connection.end()


TURNS = range(150)
"""Turns of the event loop before the cancellation; a start takes some 70, the stop after it the rest."""


@pytest.fixture
async def kafka() -> AsyncIterator[KafkaSettings]:
    async with EmbeddedBroker(topics={"t": 2}) as broker:
        yield KafkaSettings(bootstrap_servers=broker.bootstrap_servers)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BrokerConnection]]:
    found: list[BrokerConnection] = []
    connect = BrokerConnection.connect

    async def noted(self: BrokerConnection) -> object:
        found.append(self)
        return await connect(self)

    monkeypatch.setattr(BrokerConnection, "connect", noted)
    yield found
    for one in found:
        one.close()


async def _consumer(kafka: KafkaSettings) -> None:
    consumer = AIOKafkaConsumer("t", **client_options(kafka))
    try:
        await consumer.start()
    finally:
        await stop_consumer(consumer)


async def _read(kafka: KafkaSettings) -> None:
    async for _ in TopicReader(kafka).read("t"):
        pass


@pytest.mark.parametrize(
    "start", [_consumer, _read, partial(ensure_topics, wanted=(), create=False, grants=())],
    ids=["consumer", "read", "topics"],
)  # fmt: skip
async def test_no_connection_is_left(
    start: Callable[[KafkaSettings], Awaitable[None]], kafka: KafkaSettings, opened: list[BrokerConnection]
) -> None:
    for turns in TURNS:
        task = asyncio.ensure_future(start(kafka))
        for _ in range(turns):
            await asyncio.sleep(0)
        is_through = task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        left = [one for one in opened if one.connected()]
        assert not left, f"cancelled after {turns} turns of the event loop"
        opened.clear()
        if is_through:
            return


HEARTBEAT, SYNC, HANDSHAKE, API_VERSIONS = 12, 14, 17, 18
KNOWN = struct.pack(">hi12h", 0, 4, HEARTBEAT, 0, 1, SYNC, 0, 0, HANDSHAKE, 0, 1, API_VERSIONS, 0, 0)

Answer = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]


def answering(answer: Answer) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            request = await reader.readexactly(int.from_bytes(size))
            correlation = request[4:8]
            if int.from_bytes(request[:2]) == API_VERSIONS:
                writer.write(struct.pack(">i", len(KNOWN) + 4) + correlation + KNOWN)
            else:
                await answer(writer, correlation)

    return serve


async def test_a_refused_login_leaves_no_open_connection(
    tmp_path: Path, opened: list[BrokerConnection]
) -> None:
    """The broker offers another SASL mechanism (error 33), and does not answer a TLS shutdown."""
    authority = Authority(tmp_path)
    own = authority.issue("broker", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)

    asked: list[Any] = []

    async def other(writer: asyncio.StreamWriter, correlation: bytes) -> None:
        asked.append(writer)
        asked[0].transport.pause_reading()
        writer.write(struct.pack(">i4shih11s", 23, correlation, 33, 1, 11, b"OAUTHBEARER"))

    kafka = kafka_of(**{**SCRAM, "protocol": "SASL_SSL"}, password_env="P", ca_file=authority.file)
    options = client_options(kafka, {"P": "x"})
    del options["bootstrap_servers"]
    async with await asyncio.start_server(answering(other), "127.0.0.1", 0, ssl=context) as server:
        with pytest.raises(UnsupportedSaslMechanismError):
            await open_connection("127.0.0.1", server.sockets[0].getsockname()[1], **options)
        (connection,) = opened
        assert connection.close().done()
        asked[0].transport.abort()
        await asked[0].wait_closed()


async def nothing(_writer: asyncio.StreamWriter, _correlation: bytes) -> None:
    """Accept the request and do not answer."""


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.08)


@pytest.mark.usefixtures("soon")
async def test_a_half_open_connection_is_closed() -> None:
    """Without this a heartbeat waits for aiokafka's 40 s, and the session expires."""
    async with listening(answering(nothing)) as port:
        connection = await open_connection("127.0.0.1", port)
        first, second = (connection.send(HeartbeatRequest("g", 1, "m")) for _ in range(2))
        async with asyncio.timeout(30):
            for answer in (first, second):
                with pytest.raises(KafkaConnectionError):
                    await answer
        await connection.end()


async def late(writer: asyncio.StreamWriter, correlation: bytes) -> None:
    """Answer a join after four times `QUIET_SECONDS`, when the other members have come."""
    await asyncio.sleep(0.32)  # the broker's delay
    writer.write(struct.pack(">i", 10) + correlation + struct.pack(">hi", 0, 0))


async def drip(writer: asyncio.StreamWriter, correlation: bytes) -> None:
    """Send the answer within seven times `QUIET_SECONDS`, over a slow line."""
    for byte in struct.pack(">i", 10) + correlation + struct.pack(">ih", 0, 0):
        writer.write(bytes([byte]))
        await asyncio.sleep(0.04)  # the line's delay


def throttle() -> Answer:
    """Announce a pause of 5 s, and take four times `QUIET_SECONDS` for the next answer."""
    reads_on = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter, correlation: bytes) -> None:
        if reads_on.is_set():
            await asyncio.sleep(0.32)  # the broker's delay
        reads_on.set()
        writer.write(struct.pack(">i", 10) + correlation + struct.pack(">ih", 5_000, 0))

    return answer


JOIN, HEART = SyncGroupRequest("g", 1, "m", "", []), HeartbeatRequest("g", 1, "m")


@pytest.mark.parametrize(
    ("answer", "requests"),
    [(late, [JOIN]), (drip, [HEART]), (throttle(), [HEART] * 2)],
    ids=["join", "slow line", "throttled"],
)
@pytest.mark.usefixtures("soon")
async def test_an_answer_that_takes_long_is_waited_for(answer: Answer, requests: list[Any]) -> None:
    async with listening(answering(answer)) as port:
        connection = await open_connection("127.0.0.1", port)
        for request in requests:
            assert (await connection.send(request)).error_code == 0
        await connection.end()


@pytest.mark.usefixtures("soon")
async def test_an_idle_connection_stays_open() -> None:
    async with listening(answering(nothing)) as port:
        connection = await open_connection("127.0.0.1", port)
        for _ in range(2):
            assert (await connection.send(ApiVersionRequest())).error_code == 0
            await asyncio.sleep(0.2)  # more than twice QUIET_SECONDS
        await connection.end()
