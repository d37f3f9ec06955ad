"""How a command opens settings, a broker, a store or a file."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from typer import echo

from streams.cli.running import BadUsageError, CommandError, run_until_stopped
from streams.errors import KafkaAccessError, SettingsError, StreamsError

if TYPE_CHECKING:
    from aiokafka import AIOKafkaProducer

    from judge.metric import Metric
    from streams.kafka.reader import TopicReader
    from streams.kafka.topics.grants import Grant
    from streams.settings.tree import Settings
    from streams.store.database import Snapshot
    from streams.store.views.incidents import Incident
    from streams.web.port import Port

T = TypeVar("T")
DEBUG_VARIABLE = "JUDGESTREAM_DEBUG"
"""Shows tracebacks; a variable of the command line, not a setting."""
START_TIMEOUT_SECONDS = 20.0
MAX_TOPICS_SHOWN = 50
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Records up to this size are read and sent; a broker's default limit is far lower."""


@dataclass(frozen=True, slots=True)
class Session:
    """One call of a command: its settings, with the broker and store of the call, and where they are from."""

    settings: Settings
    config: Path | None = None

    def run(self, work: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
        from aiokafka.errors import KafkaError

        from streams.kafka.access.errors import explain

        try:
            return run_until_stopped(work)
        except SettingsError as error:
            raise bad_settings(error, self.config) from error
        except (StreamsError, KafkaError) as error:
            known = explain(error, self.settings.kafka)
            if known is not None and known.lasting:
                raise BadUsageError(str(known)) from error
            raise CommandError(str(error)) from error

    async def reader(self, topic: str) -> TopicReader:
        from streams.kafka.reader import TopicReader
        from streams.kafka.topics.grants import tail_grants

        reader = TopicReader(
            self.settings.kafka,
            fetch_bytes=MAX_RECORD_BYTES,
            start=lambda consumer: self._start(consumer, tail_grants(topic)),
        )
        self.require_topic(topic, await reader.topics())
        return reader

    @asynccontextmanager
    async def producer(self, grants: Sequence[Grant], **options: Any) -> AsyncIterator[AIOKafkaProducer]:
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

    @asynccontextmanager
    async def sending(self, topic: str) -> AsyncIterator[Callable[..., Awaitable[None]]]:
        """Yield a function that writes a message (None: no value) with its key and headers."""
        from streams.kafka.topics.grants import produce_grants

        async with self.producer(produce_grants(topic)) as producer:

            async def send(message: Any, key: str, headers: Sequence[tuple[str, bytes]] = ()) -> None:
                value = None if message is None else message.model_dump_json().encode()
                await producer.send_and_wait(topic, value, key=key.encode(), headers=list(headers))

            yield send

    async def _start(self, client: Any, grants: Sequence[Grant]) -> None:
        """Check the rights first, because a client's own errors do not name them."""
        from aiokafka.client import AIOKafkaClient
        from aiokafka.errors import KafkaError

        from streams.kafka.access.access import client_options
        from streams.kafka.access.connection import connection_errors
        from streams.kafka.access.errors import explain_any
        from streams.kafka.topics.grants import refuse_denied

        kafka = self.settings.kafka
        try:
            with connection_errors() as errors:
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
            known = explain_any([*errors, error], kafka)
            if known is not None and known.lasting:
                raise BadUsageError(str(known)) from error
            hint = "check --bootstrap-servers and that it runs" if known is None else str(known)
            where = f"{kafka.bootstrap_servers} ({type(error).__name__})"
            raise CommandError(f"no Kafka broker answers at {where}; {hint}") from error

    def require_topic(self, topic: str, known: Iterable[str]) -> None:
        names = sorted(known)
        if topic in names:
            return
        more = f" and {len(names) - MAX_TOPICS_SHOWN} more" if len(names) > MAX_TOPICS_SHOWN else ""
        shown = ", ".join(names[:MAX_TOPICS_SHOWN]) + more or "no topics"
        servers = self.settings.kafka.bootstrap_servers
        raise CommandError(f"there is no topic {topic!r} at {servers}; it has {shown}")

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        from streams.store.database import read_store

        return read_store(self.settings.store.path)

    def metrics(self) -> dict[str, Metric]:
        from streams.judging.metrics import build_metrics

        try:
            return build_metrics(self.settings)
        except SettingsError as error:
            raise bad_settings(error, self.config) from error

    @staticmethod
    async def serve(port: Port, parts: Iterable[Any], stop: asyncio.Event, line: str) -> None:
        """Serve pages until a signal; `line` has the place of the address."""
        app = port.application()
        for part in parts:
            part.add_to(app)
        await port.start(app)
        try:
            echo(line.format(port.url))
            await stop.wait()
        finally:
            await port.stop()

    @staticmethod
    def incident(snapshot: Snapshot, incident_id: str) -> Incident:
        from streams.store.views.incidents import find, known_incidents

        known = known_incidents(snapshot)
        found = find(known, incident_id)
        if found is None:
            ids = ", ".join(one.incident_id for one in known[:10]) or "none"
            raise BadUsageError(f"there is no incident {incident_id[:40]!r}; the store has {ids}")
        return found

    def require_store(self, remedy: str) -> None:
        path = self.settings.store.path
        if not path.is_file():
            raise BadUsageError(f"there is no store at {path}; run a worker with --agents store, {remedy}")

    def log_as_worker(self) -> None:
        from streams.telemetry.logs import set_up_logs, settings_masker

        set_up_logs(self.settings.telemetry, masker=settings_masker(self.settings, os.environ))


def session(config: Path | None, brokers: str | None = None, store: Path | None = None) -> Session:
    """Load the settings, and log warnings to standard error: standard output may be JSON."""
    from streams.telemetry.logs import settings_masker

    overrides = {} if brokers is None else {"JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS": brokers}
    settings = settings_for_command(config, overrides)
    log_to_stderr("warning", settings_masker(settings, os.environ))
    warn_of_deprecated(settings)
    # The client logs each refused connection; the command's one error is enough.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    if store is not None:
        kept = settings.store.model_copy(update={"path": store})
        settings = settings.model_copy(update={"store": kept})
    return Session(settings, config)


def warn_of_deprecated(settings: Settings) -> None:
    import structlog

    for warning in settings.deprecated:
        structlog.stdlib.get_logger(__name__).warning(warning)


def log_to_stderr(level: Any, masker: Any = None) -> None:
    from streams.settings.outputs import TelemetrySettings
    from streams.telemetry.logs import set_up_logs

    set_up_logs(TelemetrySettings(log_level=level), masker=masker)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != DEBUG_VARIABLE}


def settings_for_command(
    path: Path | None, overrides: dict[str, str] | None = None, *, runnable: bool = False
) -> Settings:
    """Load settings; `runnable` also checks, without the network, that a worker would start with them."""
    from streams.settings.load import load_settings

    if path is not None and (folder := str(path.parent.resolve())) not in sys.path:
        sys.path.append(folder)  # the module of a metric in Python may be beside the settings file
    try:
        settings = load_settings(path, environment() | (overrides or {}))
        problems = _obstacles(settings) if runnable else []
    except SettingsError as error:
        rest = error.rest if runnable else None
        problems = [*error.problems, *(() if rest is None else rest.own(_obstacles(rest.settings)))]
    if problems:
        every = SettingsError(problems)
        raise bad_settings(every, path) from every
    return settings


def _obstacles(settings: Settings) -> list[str]:
    from judge.chat import OFFLINE_MODEL
    from streams.intake.reader import open_reader
    from streams.judging.endpoints import check_prices, judge_endpoints
    from streams.judging.metrics import beyond_offline_rules, build_metrics

    problems: list[str] = []
    if "metrics" not in settings.model_fields_set:
        example = "coverage: {when: {has: [reference]}}"
        problems.append(f"metrics: is required (got nothing); add a metric, for example {example}")

    def tried(work: Callable[[], T]) -> T | None:
        try:
            return work()
        except SettingsError as error:
            problems.extend(error.problems)
            return None

    metrics = tried(lambda: build_metrics(settings)) or {}
    endpoints = tried(lambda: judge_endpoints(settings.judge, os.environ, settings.metrics))
    if endpoints and all(endpoint.model == OFFLINE_MODEL for endpoint in endpoints):
        remedy = "name an endpoint with a model in judge.endpoints"
        problems += [f"metrics.{problem}; {remedy}" for problem in beyond_offline_rules(metrics)]
    for endpoint in endpoints or ():
        tried(endpoint.read_key)
    if endpoints is not None:
        tried(lambda: check_prices(settings.judge, endpoints, settings.sampling_limit))
    tried(lambda: open_reader(settings, os.environ))
    return problems


def bad_settings(error: SettingsError, path: Path | None) -> BadUsageError:
    count = len(error.problems)
    what = "1 problem" if count == 1 else f"{count} problems"
    where = f"{what} in the settings ({'the environment' if path is None else path}):"
    return BadUsageError("\n".join((where, *(f"  {one}" for one in error.problems))))


@contextmanager
def opened(file: Path, *, progress: bool = False) -> Iterator[BinaryIO]:
    """Open a file for reading; `-` is standard input. Show the progress on standard error if a terminal."""
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        handle = file.open("rb")
    except OSError as error:
        raise BadUsageError(f"cannot read {file}: {error.strerror}") from error
    with handle:
        if not (progress and sys.stderr.isatty() and file.is_file()):
            yield handle
            return
        from rich.console import Console
        from rich.progress import wrap_file

        console = Console(stderr=True)
        with wrap_file(handle, file.stat().st_size, description="", console=console, transient=True) as shown:
            yield shown
