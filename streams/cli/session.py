"""How a command opens settings, a broker, a consumer or a producer, runs, fails and prints."""
# ruff: noqa: PLC0415 - heavy imports stay inside the functions, so that --help is quick

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from streams.cli.errors import BadUsageError, CommandError
from streams.cli.running import EventLoop, run_until_stopped
from streams.cli.settings import bad_settings, settings_for_command

if TYPE_CHECKING:
    from aiokafka import AIOKafkaProducer

    from streams.kafka.reader import TopicReader
    from streams.kafka.topics.grants import Grant
    from streams.settings import Settings

T = TypeVar("T")
START_TIMEOUT_SECONDS = 20.0
"""How long to try before reporting that no broker answers."""
MAX_TOPICS_SHOWN = 50
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Records up to this size are read and sent; a broker's default limit is far lower."""

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers", "-b", metavar="HOST:PORT,...", help="Brokers; default: those of the settings."
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="The settings file (YAML).")
]
RequiredConfig = Annotated[
    Path, typer.Option("--config", "-c", metavar="FILE", help="The settings file (YAML).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@dataclass(frozen=True, slots=True)
class Session:
    """One call of a command: its settings, with the broker of the call, and where they are from."""

    settings: Settings
    config: Path | None = None

    def run(
        self, work: Callable[[asyncio.Event], Coroutine[Any, Any, T]], *, loop: EventLoop = "asyncio"
    ) -> T:
        """Run a coroutine until it ends or a signal stops it; turn its errors into the command's.

        Raises:
            BadUsageError: The settings or the rights must change first.
            CommandError: It failed.
        """
        from aiokafka.errors import KafkaError

        from judge.errors import JudgeConfigurationError
        from streams.errors import SettingsError, StreamsError
        from streams.kafka.access.errors import explain

        try:
            return run_until_stopped(work, loop=loop)
        except SettingsError as error:
            raise bad_settings(error, self.config) from error
        except JudgeConfigurationError as error:
            raise BadUsageError(str(error)) from error
        except (StreamsError, KafkaError) as error:
            known = explain(error, self.settings.kafka)
            if known is not None and known.lasting:
                raise BadUsageError(str(known)) from error
            raise CommandError(str(error)) from error

    def reader(self, grants: Sequence[Grant] = ()) -> TopicReader:
        """Return a reader whose failures to connect are explained."""
        from streams.kafka.reader import TopicReader

        return TopicReader(
            self.settings.kafka,
            fetch_bytes=MAX_RECORD_BYTES,
            start=lambda consumer: self._start(consumer, grants),
        )

    @asynccontextmanager
    async def producer(self, grants: Sequence[Grant], **options: Any) -> AsyncIterator[AIOKafkaProducer]:
        """Open an idempotent producer."""
        from aiokafka import AIOKafkaProducer

        from streams.kafka.access.access import client_options

        producer = AIOKafkaProducer(
            **client_options(self.settings.kafka),
            acks="all",
            enable_idempotence=True,
            max_request_size=MAX_RECORD_BYTES,
            **options,
        )
        try:
            await self._start(producer, grants)
            yield producer
        finally:
            await producer.stop()

    async def _start(self, client: Any, grants: Sequence[Grant]) -> None:
        """Check the rights, which a client's own errors do not name, and start it, or explain the failure."""
        from aiokafka.client import AIOKafkaClient
        from aiokafka.errors import KafkaError

        from streams.errors import KafkaAccessError
        from streams.kafka.access.access import client_options
        from streams.kafka.access.errors import explain
        from streams.kafka.access.reach import reach
        from streams.kafka.topics.grants import refuse_denied

        kafka = self.settings.kafka
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                asking = AIOKafkaClient(**client_options(kafka))
                try:
                    await asking.bootstrap()
                    await refuse_denied(asking, kafka, grants)
                finally:
                    await asking.close()
                await client.start()
        except KafkaAccessError as error:
            raise BadUsageError(str(error)) from error
        except (KafkaError, OSError, TimeoutError) as error:
            known = None
            try:
                await reach(kafka)
            except Exception as cause:  # noqa: BLE001 - any error is explained if possible
                known = explain(cause, kafka)
            if known is not None and known.lasting:
                raise BadUsageError(str(known)) from error
            hint = "check --bootstrap-servers and that it runs" if known is None else str(known)
            where = f"{kafka.bootstrap_servers} ({type(error).__name__})"
            raise CommandError(f"no Kafka broker answers at {where}; {hint}") from error

    def no_topic(self, topic: str, known: Collection[str]) -> CommandError:
        """Return the error for a missing topic, with the existing ones."""
        shown = sorted(known)[:MAX_TOPICS_SHOWN]
        more = f" and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
        names = ", ".join(shown) + more if shown else "no topics"
        servers = self.settings.kafka.bootstrap_servers
        return CommandError(f"there is no topic {topic!r} at {servers}; it has {names}")


def session(config: Path | None, bootstrap_servers: str | None = None) -> Session:
    """Load the settings, and log warnings to standard error: standard output may be JSON.

    Raises:
        BadUsageError: The settings or the addresses are invalid.
    """
    from streams.settings import TelemetrySettings
    from streams.telemetry.logs import set_up_logs
    from streams.telemetry.masking import settings_masker

    settings = settings_for_command(config)
    set_up_logs(TelemetrySettings(log_level="warning"), masker=settings_masker(settings, os.environ))
    # The client logs each refused connection; the command's one error is enough.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    if bootstrap_servers is not None:
        for server in bootstrap_servers.split(","):
            host, _, port = server.strip().rpartition(":")
            if not host or not port.isascii() or not port.isdigit():
                raise BadUsageError(
                    f"--bootstrap-servers must be HOST:PORT, several separated by commas, got "
                    f"{bootstrap_servers!r}"
                )
        kafka = settings.kafka.model_copy(update={"bootstrap_servers": bootstrap_servers})
        settings = settings.model_copy(update={"kafka": kafka})
    return Session(settings, config)


def emit(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a result: as one JSON document, or as lines for people."""
    for line in [json.dumps(value, ensure_ascii=False)] if as_json else lines:
        typer.echo(line)


def help_without_command(context: typer.Context) -> None:
    """Print the help of a group to standard error and exit with 2 if no command of it is named."""
    if context.invoked_subcommand is None:
        with contextlib.redirect_stdout(sys.stderr):
            text = context.get_help()  # where Typer formats it with Rich, it is printed already
        if text.strip():
            typer.echo(text, err=True)
        raise typer.Exit(2)
