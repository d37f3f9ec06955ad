"""The Faust application, set up so that nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import faust
import faust.streams
from faust.tables.manager import TableManager
from yarl import URL

from judge.errors import JudgeError
from streams.errors import StreamsError, UnsupportedFaustError
from streams.kafka.access.access import Access
from streams.kafka.access.connections import Admission
from streams.kafka.access.errors import DENIED
from streams.kafka.transport import Plan, Transport
from streams.kafka.transport.consumer_thread import THREAD_END_SECONDS
from streams.settings import KafkaSettings

MAX_POLL_INTERVAL_SECONDS: Final = 30 * 24 * 3600.0
"""Longer than any outage of a judge that a person leaves alone: a worker that waits stays in its group."""
MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
"""Largest record the producer hands on; the broker's own limit is the one that counts."""
STREAM_BUFFER_RECORDS: Final = 1_000_000
"""Never reached: the transport's room per topic is far smaller, and a full buffer would block the delivery.
"""
REQUEST_TIMEOUT_MARGIN_SECONDS: Final = 10.0
LINGER_SECONDS: Final = 0.01
"""How long a record may wait for others to share a request with."""


class RawSchema(faust.Schema):
    """Keys and values as the bytes that they are, without the search for a codec at every record."""

    def compile(self, app: Any, **_: Any) -> Callable[..., Awaitable[Any]]:
        """Build the function that makes an event of a message."""
        create_event = app.create_event

        async def decode(message: Any, *, propagate: bool = False) -> Any:  # noqa: ARG001 - nothing here can fail
            return create_event(message.key, message.value, message.headers, message)

        return decode


class QuietMonitor(faust.Monitor):
    """Faust's own statistics, disabled: they are unused and cost time at every record."""

    on_message_in = faust.Sensor.on_message_in
    on_message_out = faust.Sensor.on_message_out
    on_stream_event_in = faust.Sensor.on_stream_event_in
    on_stream_event_out = faust.Sensor.on_stream_event_out
    on_send_initiated = faust.Sensor.on_send_initiated
    on_send_completed = faust.Sensor.on_send_completed


class NoTables(TableManager):
    """There are no tables, so there is no second to be spent on waiting for them to register."""

    async def on_start(self) -> None:
        """Go on at once."""
        await self._update_channels()
        await self.recovery.start()


class App(faust.App):
    """A Faust application that leaves no directory behind."""

    admission: Admission
    """Whether the broker accepts connections."""
    _giving_up: asyncio.Future[None] | None = None

    def _create_directories(self) -> None:
        """Do nothing: there are no tables, so there is nothing to keep in files."""

    async def crash(self, reason: BaseException) -> None:
        """Stop everything.

        The reason is reported once: with a stack trace if it is unexpected, else by who runs this.
        """
        if self._crashed.is_set():
            return
        foreseen = (StreamsError, JudgeError, *DENIED)
        if isinstance(reason, DENIED):
            self.log.error("the broker refuses access: %r", reason)
        elif not isinstance(reason, foreseen):
            self.log.error("Crashed: %r", reason, exc_info=reason)
        # The parts are left alone, so that they can still be stopped in order; Faust would have each of them
        # crash, with a stack trace of its own.
        self.crash_reason = reason
        self._crashed.set()

    def _crash(self, reason: BaseException) -> None:
        """Keep the first reason: what fails while everything stops follows from it."""
        if not self._crashed.is_set():
            super()._crash(reason)

    async def stop(self) -> None:
        """Stop, and wait for the consumer's thread: after a crash it ends later, when its loop is closed."""
        await super().stop()
        consumer = self._consumer
        thread = None if consumer is None else consumer._thread._thread  # noqa: SLF001 - there is no public access to it
        if thread is not None:
            await asyncio.to_thread(thread.join, THREAD_END_SECONDS)

    def give_up(self, error: Exception) -> None:
        """Crash for a reason found elsewhere. Called from any thread, and more than once."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._give_up, error)

    def _give_up(self, error: Exception) -> None:
        if self._giving_up is None and not self.should_stop:
            self._giving_up = asyncio.ensure_future(self.crash(error))


def build_app(kafka: KafkaSettings, *, group_id: str, plan: Plan) -> App:
    """Build the application; several may live in one process, one after the other or at once.

    Args:
        kafka: Where the broker is, and the worker's place in its group.
        group_id: The consumer group.
        plan: What the transport shall do.

    Raises:
        UnsupportedFaustError: Faust runs without its compiled parts.
        SettingsError: A secret or certificate is not where the settings say.
    """
    if faust.streams._CStreamIterator is None:  # noqa: SLF001 - the only way to know
        raise UnsupportedFaustError(
            "Faust's compiled stream iterator is missing; install faust-streaming from a wheel (or with a "
            "C compiler) "
            "and unset NO_CYTHON: the pure Python version acknowledges differently"
        )
    urls = [URL(f"kafka://{server}") for server in kafka.bootstrap_servers.split(",")]
    session = kafka.session_timeout_seconds
    access = Access(kafka)
    app = App(
        group_id,
        monitor=QuietMonitor(),
        TableManager=NoTables,
        broker=urls,
        broker_credentials=access.faust_credentials(),
        broker_client_id="judgestream",
        broker_commit_interval=kafka.commit_interval_seconds,
        broker_heartbeat_interval=kafka.heartbeat_interval_seconds,
        broker_max_poll_interval=MAX_POLL_INTERVAL_SECONDS,
        broker_rebalance_timeout=kafka.rebalance_timeout_seconds,
        # A join waits for the slowest member, so the answer to it may take the whole rebalance.
        broker_request_timeout=max(session, kafka.rebalance_timeout_seconds) + REQUEST_TIMEOUT_MARGIN_SECONDS,
        broker_session_timeout=session,
        # Where an offset is out of range, `transport.ranges` decides; where a new group begins,
        # `transport.starts`.
        consumer_auto_offset_reset="none",
        consumer_group_instance_id=kafka.group_instance_id,
        consumer_metadata_max_age_ms=round(kafka.metadata_age_seconds * 1000),
        producer_acks=-1,
        producer_linger=LINGER_SECONDS,
        producer_max_request_size=MAX_REQUEST_BYTES,
        producer_metadata_max_age_ms=round(kafka.metadata_age_seconds * 1000),
        producer_request_timeout=kafka.producer_timeout_seconds,
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
    transport = Transport(urls, app, plan=plan)
    app.transport = transport
    app.producer_transport = transport
    app.admission = access.admission
    app.admission.on_refused = app.give_up
    return app


def add_agent(app: App, topic: str, name: str, run: Callable[[Any], Awaitable[None]]) -> None:
    """Have `run` read a topic.

    Args:
        app: The application.
        topic: The topic's name; it must exist.
        name: The agent's name, distinct.
        run: Gets the stream and reads it forever, acknowledging records itself.
    """
    schema = RawSchema(key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    channel = app.topic(topic, schema=schema, internal=False)

    async def agent(stream: Any) -> None:
        await run(stream)

    app.agent(channel, name=name)(agent)
