"""Try to connect to the broker once, and raise more specific errors than a Kafka client."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from aiokafka.conn import collect_hosts
from aiokafka.errors import IllegalSaslStateError, KafkaError, UnsupportedSaslMechanismError, for_code
from aiokafka.protocol.admin import SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from streams.errors import Explanation, KafkaAccessError, LoginWantedError, WrongProtocolError
from streams.kafka.access.access import client_options
from streams.kafka.access.connection import BrokerConnection, ended_certificate, open_connection
from streams.kafka.access.errors import explain
from streams.settings import KafkaSettings

REACH_SECONDS: Final = 10.0
_ASK_SECONDS: Final = 3.0


async def reach(
    kafka: KafkaSettings, options: Mapping[str, Any] | None = None, *, timeout_seconds: float = REACH_SECONDS
) -> None:
    """Open a connection, log in and request the brokers; then connect to an advertised broker.

    Args:
        options: Options as returned by `client_options`; by default those of the settings.
    """
    options = dict(client_options(kafka) if options is None else options)
    servers = collect_hosts(options.pop("bootstrap_servers"), randomize=False)
    failures: list[Exception] = []
    for host, port, _ in servers:
        try:
            async with asyncio.timeout(timeout_seconds):
                await _enter(kafka, host, port, options)
        except Exception as error:  # noqa: BLE001 - the caller explains each
            failures.append(error)
        else:
            return
    raise max(failures, key=lambda error: _telling(explain(error, kafka)))


def _telling(explanation: Explanation | None) -> int:
    return 0 if explanation is None else 1 + explanation.lasting


async def _enter(kafka: KafkaSettings, host: str, port: int, options: Mapping[str, Any]) -> None:
    brokers = await _brokers_at(kafka, host, port, options)
    elsewhere = [(broker[1], broker[2]) for broker in brokers if (broker[1], broker[2]) != (host, port)]
    if elsewhere and len(elsewhere) == len(brokers):
        # After bootstrap, clients connect to the addresses that the brokers advertise.
        await _brokers_at(kafka, *elsewhere[0], options)


async def _brokers_at(
    kafka: KafkaSettings, host: str, port: int, options: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    connection: BrokerConnection | None = None
    try:
        connection = await open_connection(
            host, port, client_id="judgestream", request_timeout_ms=round(REACH_SECONDS * 1000), **options
        )
        return list((await connection.send(MetadataRequest([]))).brokers)
    except UnsupportedSaslMechanismError:
        raise UnsupportedSaslMechanismError(await _offered_mechanisms(host, port, options) or []) from None
    except Exception as error:
        # A broker closes a connection without a reason; probe the listener for one.
        if _telling(explain(error, kafka)) < 2:
            await _look_from_outside(kafka, host, port, entered=connection is not None, options=options)
        ended = ended_certificate(error, kafka)
        if ended is not None:
            raise KafkaAccessError(ended) from error
        raise
    finally:
        if connection is not None:
            await connection.end()


async def _look_from_outside(
    kafka: KafkaSettings, host: str, port: int, *, entered: bool, options: Mapping[str, Any]
) -> None:
    server = f"{host}:{port}"
    protocol = kafka.security.protocol
    if entered and not protocol.startswith("SASL_"):
        mechanisms = await _offered_mechanisms(host, port, options)
        if mechanisms is not None:
            raise LoginWantedError(server, mechanisms)
    if not entered and protocol.endswith("SSL") and await _speaks_plain_text(host, port, options):
        raise WrongProtocolError(server, speaks_tls=False)
    if not entered and not protocol.endswith("SSL") and await _speaks_tls(host, port):
        raise WrongProtocolError(server, speaks_tls=True)


@contextlib.asynccontextmanager
async def _without_login(
    host: str, port: int, options: Mapping[str, Any], *, tls: bool
) -> AsyncIterator[BrokerConnection]:
    """Connect as a client of another protocol; what every listener answers before a login can be asked."""
    asking = {name: value for name, value in options.items() if not name.startswith("sasl_")}
    asking["security_protocol"] = "SSL" if tls else "PLAINTEXT"
    async with asyncio.timeout(_ASK_SECONDS):
        connection = await open_connection(host, port, **asking)
        try:
            yield connection
        finally:
            await connection.end()


async def _offered_mechanisms(host: str, port: int, options: Mapping[str, Any]) -> list[str] | None:
    """Return the login mechanisms of a listener; None if it has none."""
    tls = options["security_protocol"].endswith("SSL")
    try:
        async with _without_login(host, port, options, tls=tls) as connection:
            answer = await connection.send(SaslHandShakeRequest("PLAIN"))
    except (KafkaError, OSError, TimeoutError):
        return None
    if for_code(answer.error_code) is IllegalSaslStateError:
        return None
    return sorted(answer.enabled_mechanisms)


async def _speaks_plain_text(host: str, port: int, options: Mapping[str, Any]) -> bool:
    try:
        async with _without_login(host, port, options, tls=False):
            return True  # it asked for the versions of requests
    except Exception:  # noqa: BLE001 - bytes that are no response raise errors of many families
        return False


async def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent but the handshake
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "").upper()  # refused, but by TLS
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()  # a TLS shutdown would wait for the peer
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
