"""Build the Faust application with at-least-once settings, and its agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import faust
import faust.streams
import structlog
from faust.tables.manager import TableManager
from faust.transport.drivers import aiokafka as driver
from yarl import URL

from judge.errors import DrainingError, JudgeConfigurationError, JudgeError
from streams.errors import DeadLetterLimitError, SettingsError, StreamsError
from streams.kafka.access.access import client_options
from streams.kafka.access.connection import Admission
from streams.kafka.access.errors import DENIED
from streams.kafka.consumer import Consumer, ConsumerOptions
from streams.kafka.consumer_thread import THREAD_END_SECONDS
from streams.kafka.producer import Producer
from streams.settings.broker import KafkaSettings
from streams.telemetry.logs import where

_log = structlog.stdlib.get_logger(__name__)

MAX_POLL_INTERVAL_SECONDS: Final = 30 * 24 * 3600.0
"""Longer than any expected judge outage, so that a waiting worker stays in its group."""
FAUST_REQUEST_SECONDS: Final = MAX_POLL_INTERVAL_SECONDS
"""If seeking to the committed offsets took longer, Faust would never read again."""
STREAM_BUFFER_RECORDS: Final = 1_000_000
"""Never reached: the consumer bounds records per topic far lower. A full buffer would block delivery."""
METADATA_AGE_SECONDS: Final = 30.0
"""Added partitions are read after it."""
PRODUCER_TIMEOUT_SECONDS: Final = 40.0


class Transport(driver.Transport):
    Consumer = Consumer
    Producer = Producer

    def __init__(self, *args: Any, options: ConsumerOptions, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.options = options


class RawSchema(faust.Schema):
    """Passes keys and values on as bytes, without a codec lookup per record."""

    def compile(self, app: Any, **_: Any) -> Callable[..., Awaitable[Any]]:
        create_event = app.create_event

        async def decode(message: Any, *, propagate: bool = False) -> Any:  # noqa: ARG001 - nothing here can fail
            return create_event(message.key, message.value, message.headers, message)

        return decode


class QuietMonitor(faust.Monitor):
    """Disables Faust's statistics, which are unused and cost time per record."""

    on_message_in = faust.Sensor.on_message_in
    on_message_out = faust.Sensor.on_message_out
    on_stream_event_in = faust.Sensor.on_stream_event_in
    on_stream_event_out = faust.Sensor.on_stream_event_out
    on_send_initiated = faust.Sensor.on_send_initiated
    on_send_completed = faust.Sensor.on_send_completed


class NoTables(TableManager):
    """Skips Faust's wait of one second for tables; there are none."""

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()


class App(faust.App):
    admission: Admission
    _giving_up: asyncio.Future[None] | None = None

    def _create_directories(self) -> None:
        """Do nothing: there are no tables to store."""

    async def crash(self, reason: BaseException) -> None:
        """Stop everything. The caller reports a StreamsError or JudgeError; other reasons are logged here."""
        if self._crashed.is_set():
            return
        if isinstance(reason, DENIED):
            self.log.error("the broker refuses access: %r", reason)
        elif not isinstance(reason, StreamsError | JudgeError):
            self.log.error("Crashed: %r", reason, exc_info=reason)
        # Do not crash the services, so that they stop in order; Faust would crash each, with a stack trace.
        self.crash_reason = reason
        self._crashed.set()

    def _crash(self, reason: BaseException) -> None:
        # Keep the first reason; later failures follow from it.
        if not self._crashed.is_set():
            super()._crash(reason)

    async def stop(self) -> None:
        """Stop, and join the consumer's thread: after a crash it ends only when its loop is closed."""
        await super().stop()
        consumer = self._consumer
        thread = None if consumer is None else consumer._thread._thread  # noqa: SLF001 - there is no public access to it
        if thread is not None:
            await asyncio.to_thread(thread.join, THREAD_END_SECONDS)

    def give_up(self, error: Exception) -> None:
        """Crash for an error found elsewhere. May be called from any thread and more than once."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._give_up, error)

    def _give_up(self, error: Exception) -> None:
        if self._giving_up is None and not self.should_stop:
            self._giving_up = asyncio.ensure_future(self.crash(error))


def build_app(kafka: KafkaSettings, *, group_id: str, options: ConsumerOptions) -> App:
    """Build the application. A process may build several, also at the same time."""
    if faust.streams._CStreamIterator is None:  # noqa: SLF001 - the only way to know
        raise StreamsError(
            "Faust's compiled stream iterator is missing; install faust-streaming from a wheel (or with a C "
            "compiler) and unset NO_CYTHON: the pure Python version acknowledges differently"
        )
    urls = [URL(f"kafka://{server}") for server in kafka.bootstrap_servers.split(",")]
    session = kafka.session_timeout_seconds
    # Longer than the calls in flight, which a rebalance waits for.
    rebalance = max(2 * session, 1.25 * options.finish_seconds)
    admission = Admission(kafka)
    options.client = client_options(kafka, admission=admission)
    app = App(
        group_id,
        monitor=QuietMonitor(),
        TableManager=NoTables,
        broker=urls,
        broker_client_id="judgestream",
        broker_commit_interval=0.5,
        broker_heartbeat_interval=kafka.heartbeat_interval_seconds,
        broker_max_poll_interval=MAX_POLL_INTERVAL_SECONDS,
        broker_rebalance_timeout=rebalance,
        broker_request_timeout=FAUST_REQUEST_SECONDS,
        broker_session_timeout=session,
        consumer_metadata_max_age_ms=round(METADATA_AGE_SECONDS * 1000),
        producer_acks=-1,
        producer_linger=0.01,
        producer_max_request_size=32 * 1024 * 1024,  # the broker's limit is lower
        producer_metadata_max_age_ms=round(METADATA_AGE_SECONDS * 1000),
        producer_request_timeout=PRODUCER_TIMEOUT_SECONDS,
        processing_guarantee="at_least_once",
        agent_supervisor="mode.CrashingSupervisor",
        stream_buffer_maxsize=STREAM_BUFFER_RECORDS,
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        table_standby_replicas=0,
        topic_allow_declare=False,
        topic_disable_leader=True,
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        web_enabled=False,
        autodiscover=False,
    )
    transport = Transport(urls, app, options=options)
    app.transport = transport
    app.producer_transport = transport
    app.admission = admission
    admission.on_refused = app.give_up
    return app


# Agents

Handler = Callable[[Any], Awaitable[None]]
"""Handles a record; returns when its whole output is written."""


class Pipeline:
    """One agent's records in flight, each with its own task; the topic's buffer limits their number.

    Args:
        on_surprise: Called with a record and its unexpected error; returns when the dead letter is written.
        patience_seconds: How long a record may take by design, such as one that waits for a batch.
    """

    def __init__(
        self,
        name: str,
        handle: Handler,
        *,
        on_unreadable: Handler,
        on_surprise: Callable[[Any, Exception], Awaitable[None]],
        crash: Callable[[BaseException], Awaitable[None]],
        patience_seconds: float = 0.0,
    ) -> None:
        self.name = name
        self.patience_seconds = patience_seconds
        self._handle = handle
        self._on_unreadable = on_unreadable
        self._on_surprise = on_surprise
        self._crash = crash
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.released = 0
        """Records in flight that did not finish in time, to be read again."""
        self.last_finished = time.monotonic()
        """Time of the last finished record or of the last idle moment, on the monotonic clock."""

    @property
    def in_hand(self) -> int:
        return len(self._tasks)

    async def run(self, stream: Any) -> None:
        manual = stream.noack()
        async for event in manual.events():
            if self._closed:
                continue  # not acknowledged, so that it is redelivered
            if not self._tasks:
                self.last_finished = time.monotonic()
            task = asyncio.create_task(self._finish(manual, event))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _finish(self, stream: Any, event: Any) -> None:
        record = event.message
        try:
            await (self._handle if record.unreadable is None else self._on_unreadable)(record)
        except DrainingError:
            return  # not acknowledged: redelivered to the partition's next owner
        except (JudgeConfigurationError, SettingsError, DeadLetterLimitError) as error:
            _log.critical("stopping: no record can be handled", agent=self.name, error=str(error))
            await self._crash(error)
            return
        except Exception as error:  # noqa: BLE001 - one bad record must not stop the worker
            # The error message may quote the record, so it goes into the dead letter only.
            _log.error(
                "unexpected error: the record becomes a dead letter",
                agent=self.name,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                error=type(error).__name__,
                where=where(error),
            )
            _log.debug("unexpected error [may quote the record]", agent=self.name, exc_info=error)
            try:
                await self._on_surprise(record, error)
            except Exception as second:  # noqa: BLE001 - the crash reports it
                _log.exception("stopping: the dead letter could not be written", agent=self.name)
                await self._crash(second)
                return
        await stream.ack(event)
        self.last_finished = time.monotonic()

    def close(self) -> None:
        self._closed = True

    async def finish(self, timeout_seconds: float) -> None:
        """Wait for the records in flight up to the timeout, then cancel the rest."""
        tasks = set(self._tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in late:
            task.cancel()
        if late:
            self.released += len(late)
            _log.warning("records released, to be read again", agent=self.name, records=len(late))
            await asyncio.wait(late)


def add_agent(app: App, topic: str, name: str, run: Callable[[Any], Awaitable[None]]) -> None:
    """Run an agent on an existing topic, under a unique name."""
    schema = RawSchema(key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    app.agent(app.topic(topic, schema=schema, internal=False), name=name)(run)
