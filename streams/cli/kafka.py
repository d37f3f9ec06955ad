"""Where the broker is, for the commands that talk to Kafka themselves."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.cli.errors import BadUsageError, CommandError

if TYPE_CHECKING:
    from streams.settings import Settings

START_TIMEOUT_SECONDS = 20.0
"""How long to try before saying that no broker answers."""

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        metavar="HOST:PORT,...",
        help="The Kafka brokers; else those of the settings (127.0.0.1:9092 if they name none).",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings file: brokers, security, names of topics."),
]


@dataclass(frozen=True, slots=True)
class Connection:
    """A broker and how to get in."""

    settings: Settings
    bootstrap_servers: str

    def client_options(self) -> dict[str, Any]:
        """Give the arguments that aiokafka's producer and consumer share.

        Raises:
            BadUsageError: A secret or certificate is not where the settings say.
        """
        from streams.cli.settings import bad_settings
        from streams.connection import client_options
        from streams.errors import SettingsError

        kafka = self.settings.kafka.model_copy(update={"bootstrap_servers": self.bootstrap_servers})
        try:
            return client_options(kafka)
        except SettingsError as error:
            raise bad_settings(error, None) from error

    async def start(self, client: Any) -> None:
        """Start a producer or consumer, or say that there is no broker.

        Raises:
            CommandError: Nobody answered in time.
        """
        from aiokafka.errors import KafkaError

        deadline = asyncio.get_running_loop().time() + START_TIMEOUT_SECONDS
        try:
            async with asyncio.timeout_at(deadline):
                await client.start()
        except (KafkaError, OSError, TimeoutError) as error:
            await client.stop()
            raise CommandError(
                f"no Kafka broker answers at {self.bootstrap_servers} ({type(error).__name__}); "
                "check --bootstrap-servers and that it runs"
            ) from error


def connection(bootstrap_servers: str | None, config: Path | None) -> Connection:
    """Find the broker that a command's options and the settings mean.

    Raises:
        BadUsageError: The settings do not hold.
    """
    import logging

    from streams.cli.settings import settings_for_command

    # The client logs each refused connection with its own words; the one error at the end says it once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    settings = settings_for_command(config)
    servers = bootstrap_servers or settings.kafka.bootstrap_servers
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise BadUsageError(
                f"--bootstrap-servers must be HOST:PORT, several separated by commas, got {servers!r}"
            )
    return Connection(settings, servers)
