"""The broker connection of the commands that use Kafka directly."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.cli.errors import BadUsageError, CommandError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from aiokafka import AIOKafkaConsumer

    from streams.errors import Explanation
    from streams.kafka.topics.grants import Grant
    from streams.settings import KafkaSettings, Settings

START_TIMEOUT_SECONDS = 20.0
"""How long to try before reporting that no broker answers."""

MAX_TOPICS_SHOWN = 50
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Records up to this size are read and sent."""

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        metavar="HOST:PORT,...",
        help="Kafka brokers; default: those of the settings, else 127.0.0.1:9092.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings file: brokers, security, topic names."),
]


@dataclass(frozen=True, slots=True)
class Connection:
    """A broker and its credentials."""

    settings: Settings
    bootstrap_servers: str

    def client_options(self) -> dict[str, Any]:
        """Return the arguments that aiokafka's producer and consumer share.

        Raises:
            BadUsageError: A secret or certificate is missing.
        """
        from streams.cli.settings import bad_settings
        from streams.errors import SettingsError
        from streams.kafka.access.access import client_options

        try:
            return client_options(self.kafka)
        except SettingsError as error:
            raise bad_settings(error, None) from error

    def reader(self, **options: Any) -> AIOKafkaConsumer:
        """Build a consumer of committed records without a group; `start` starts it.

        Args:
            options: Further arguments of the consumer.

        Raises:
            BadUsageError: A secret or certificate is missing.
        """
        from aiokafka import AIOKafkaConsumer

        return AIOKafkaConsumer(
            **self.client_options(),
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            **options,
        )

    @property
    def kafka(self) -> KafkaSettings:
        """The Kafka settings with this connection's broker."""
        return self.settings.kafka.model_copy(update={"bootstrap_servers": self.bootstrap_servers})

    async def start(self, client: Any, grants: Sequence[Grant]) -> None:
        """Start a producer or consumer, or explain the failure.

        Args:
            client: The producer or consumer.
            grants: The rights it needs.

        Raises:
            BadUsageError: The broker refuses access; a retry does not help.
            CommandError: No broker answered in time.
        """
        from aiokafka.errors import KafkaError

        deadline = asyncio.get_running_loop().time() + START_TIMEOUT_SECONDS
        try:
            async with asyncio.timeout_at(deadline):
                await self._require(grants)
                await client.start()
        except (KafkaError, OSError, TimeoutError) as error:
            await client.stop()
            known = await self._explanation()
            if known is not None and known.lasting:
                raise BadUsageError(str(known)) from error
            text = f"no Kafka broker answers at {self.bootstrap_servers} ({type(error).__name__}); "
            raise CommandError(
                text + ("check --bootstrap-servers and that it runs" if known is None else str(known))
            ) from error
        except (BadUsageError, asyncio.CancelledError):  # cancelled: the caller's timeout is shorter
            await client.stop()
            raise

    async def _explanation(self) -> Explanation | None:
        from streams.kafka.access.errors import explain
        from streams.kafka.access.reach import reach

        try:
            await reach(self.kafka)
        except Exception as error:  # noqa: BLE001 - any error is explained if possible
            return explain(error, self.kafka)
        return None

    async def _require(self, grants: Sequence[Grant]) -> None:
        """Check the rights before the client starts, because its own errors do not name the missing right."""
        from aiokafka.client import AIOKafkaClient

        from streams.errors import KafkaAccessError
        from streams.kafka.topics.permissions import refuse_denied

        asking = AIOKafkaClient(**self.client_options())
        try:
            await asking.bootstrap()
            await refuse_denied(asking, self.kafka, grants)
        except KafkaAccessError as error:
            raise BadUsageError(str(error)) from error
        finally:
            await asking.close()


def no_topic(topic: str, known: Collection[str], where: Connection) -> CommandError:
    """Return the error for a missing topic, with the existing ones."""
    shown = sorted(known)[:MAX_TOPICS_SHOWN]
    more = f" and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
    names = ", ".join(shown) + more if shown else "no topics"
    return CommandError(f"there is no topic {topic!r} at {where.bootstrap_servers}; it has {names}")


def connection(bootstrap_servers: str | None, config: Path | None) -> Connection:
    """Return the connection given by a command's options and the settings.

    Raises:
        BadUsageError: The settings or the addresses are invalid.
    """
    import logging

    from streams.cli.settings import settings_for_command
    from streams.settings import TelemetrySettings
    from streams.telemetry.logs import set_up_logs
    from streams.telemetry.masking import settings_masker

    settings = settings_for_command(config)
    # Standard output is the command's own, and may be JSON.
    set_up_logs(TelemetrySettings(log_level="warning"), masker=settings_masker(settings, os.environ))
    # The client logs each refused connection; the command's one error is enough.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    servers = bootstrap_servers or settings.kafka.bootstrap_servers
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise BadUsageError(
                f"--bootstrap-servers must be HOST:PORT, several separated by commas, got {servers!r}"
            )
    return Connection(settings, servers)
