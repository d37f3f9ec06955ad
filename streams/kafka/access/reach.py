"""Try to connect to the broker once, and raise more specific errors than a Kafka client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

from aiokafka.conn import collect_hosts
from aiokafka.errors import IllegalSaslStateError, for_code
from aiokafka.protocol.admin import SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from streams.errors import Explanation, KafkaAccessError, WrongListenerError
from streams.kafka.access.access import access_mechanism, client_options
from streams.kafka.access.connection import BrokerConnection, ended_certificate, open_connection
from streams.kafka.access.errors import explain
from streams.settings.broker import KafkaSettings

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
    except Exception as error:
        # A broker closes a connection without a reason: ask what its listener is.
        if _telling(explain(error, kafka)) < 2:
            for tls in (True, False):
                await _compare(kafka, host, port, tls=tls)
        ended = ended_certificate(error, kafka)
        if ended is not None:
            raise KafkaAccessError(ended) from error
        raise
    finally:
        if connection is not None:
            await connection.end()


async def _compare(kafka: KafkaSettings, host: str, port: int, *, tls: bool) -> None:
    """Raise if a listener answers, with or without TLS, and has another protocol than the settings."""
    anyone = ssl.create_default_context()  # nothing is sent but what a listener answers before a login
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE
    protocol = "SSL" if tls else "PLAINTEXT"
    connection: BrokerConnection | None = None
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            connection = await open_connection(host, port, security_protocol=protocol, ssl_context=anyone)
            answer = await connection.send(SaslHandShakeRequest("PLAIN"))
    except Exception:  # noqa: BLE001 - bytes that are no response raise errors of many families
        return
    finally:
        if connection is not None:
            await connection.end()
    mechanisms: list[str] = []
    if for_code(answer.error_code) is not IllegalSaslStateError:
        protocol, mechanisms = f"SASL_{protocol}", sorted(answer.enabled_mechanisms)
    wanted = access_mechanism(kafka.security)
    if protocol != kafka.security.protocol or (mechanisms and wanted not in mechanisms):
        raise WrongListenerError(f"{host}:{port}", protocol, mechanisms)
