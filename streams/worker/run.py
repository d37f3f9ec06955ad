"""Run a worker: its agents on one application, and its port, from start to orderly shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry

from judge.chat import ChatClient
from judge.errors import JudgeError
from streams.errors import StreamsError, WorkerCrashedError
from streams.kafka.topics.admin import ensure_topics
from streams.kafka.topics.grants import worker_grants
from streams.kafka.topics.table import AGENTS, AgentName, plan_topics
from streams.settings import Settings
from streams.web.access import open_access
from streams.worker.agents import add_agents
from streams.worker.notices import tell_start
from streams.worker.port.server import WebServer
from streams.worker.worker import Worker

_log = structlog.stdlib.get_logger(__name__)

STOP_SECONDS: Final = 20.0
"""Shutdown timeout of the records in flight; longer if judge calls may take longer."""
LONGEST_STOP_SECONDS: Final = 120.0
"""Upper limit of that timeout."""
CLOSE_SECONDS: Final = 15.0
"""Timeout of leaving the group and flushing."""


def stop_seconds(settings: Settings) -> float:
    """Return the shutdown timeout of the records in flight, in seconds.

    It covers a judge call, because a cancelled call is paid for and then repeated. The chart's grace period
    is derived from it.
    """
    calls = min(settings.judge.timeout_seconds + 5, LONGEST_STOP_SECONDS)
    return max(STOP_SECONDS, calls)


@dataclass(frozen=True, slots=True)
class Running:
    """A running worker."""

    url: str
    group_id: str
    agents: tuple[AgentName, ...]
    status: Callable[[], Mapping[str, Any]]


async def run_worker(
    settings: Settings,
    *,
    stop: asyncio.Event,
    agents: Collection[AgentName] = AGENTS,
    registry: CollectorRegistry | None = None,
    chat: ChatClient | None = None,
    env: Mapping[str, str] | None = None,
    on_ready: Callable[[Running], None] | None = None,
) -> None:
    """Run agents until `stop` is set. Several workers may run in one event loop.

    On a stop no further records are taken, records in flight get `stop_seconds` to finish, offsets are
    committed, and the worker leaves its group. The caller must handle signals.

    Args:
        registry: Registry of this worker's metrics; by default a new one with process metrics.
        chat: The judge; by default the endpoints of the settings. The caller must close it.
        env: Environment variables, for an endpoint by OPENAI_*; those of the process by default.
        on_ready: Called once, when partitions are assigned.

    Raises:
        SettingsError: A secret, certificate, prompt pack or endpoint cannot be used.
        StreamsError: The broker does not answer, topics are missing, the port is taken, or the worker
            crashed.
        JudgeConfigurationError: No judge call can succeed with this configuration.
    """
    worker = Worker(settings, agents=agents, registry=registry, chat=chat, env=env)
    await _Run(worker).run(stop, on_ready)


class _Run:
    """Starts, runs and stops one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def run(self, stop: asyncio.Event, on_ready: Callable[[Running], None] | None) -> None:
        worker, settings = self._worker, self._worker.settings
        telemetry = settings.telemetry
        auth, tls = open_access(telemetry, worker.env)
        web = WebServer(
            host=telemetry.host,
            port=telemetry.port,
            registry=worker.metrics.registry,
            health=worker.health,
            status=worker.standing.status,
            auth=auth,
            tls=tls,
            explorer=worker.explorer(),
            near_page=telemetry.page == "loopback",
            allowed_hosts=telemetry.allowed_hosts,
        )
        await web.start()
        try:
            tell_start(settings, group_id=worker.group_id, agents=worker.agents)
            # Report invalid settings before waiting for the broker.
            add_agents(worker)
            topics_ready = ensure_topics(
                settings.kafka,
                plan_topics(settings, worker.agents),
                create=settings.topics.create,
                grants=worker_grants(settings.topics, settings.metrics, worker.group_id, worker.agents),
            )
            if not await _ended_before(stop, topics_ready):
                return
            beside = [asyncio.create_task(run()) for run in worker.beside]
            running = Running(web.url, worker.group_id, worker.agents, worker.standing.status)
            serve = self._serve if worker.agents != ("store",) else self._serve_alone
            try:
                await serve(stop, running, on_ready)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
        finally:
            await worker.close()
            await web.stop()

    async def _serve_alone(
        self, stop: asyncio.Event, running: Running, on_ready: Callable[[Running], None] | None
    ) -> None:
        """Run only the store, which reads without a consumer group or the application."""
        _log.info("reading", agents=running.agents, url=running.url)
        if on_ready is not None:
            on_ready(running)
        await stop.wait()
        self._worker.health.stopping = True

    async def _serve(
        self, stop: asyncio.Event, running: Running, on_ready: Callable[[Running], None] | None
    ) -> None:
        app = self._worker.app
        asked = asyncio.create_task(stop.wait())
        crashed = asyncio.create_task(app._crashed.wait())  # noqa: SLF001 - mode has no public way to wait for it
        starting = asyncio.create_task(app.start())
        try:
            await asyncio.wait({asked, crashed, starting}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not starting.cancelled() and starting.exception() is None:
                _log.info("reading", group_id=running.group_id, agents=running.agents, url=running.url)
                if on_ready is not None and not (asked.done() or crashed.done()):
                    on_ready(running)
                await asyncio.wait({asked, crashed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            crash = app.crash_reason
            why = getattr(stop, "reason", "asked to") if crash is None else f"crash: {type(crash).__name__}"
            await self._close(starting, why)
            asked.cancel()
            crashed.cancel()
        if starting.done() and not starting.cancelled() and starting.exception() is not None:
            raise WorkerCrashedError(
                f"the worker could not start: {starting.exception()!r}"
            ) from starting.exception()
        reason = app.crash_reason
        if reason is not None:
            if isinstance(reason, StreamsError | JudgeError):
                raise reason
            raise WorkerCrashedError(f"the worker crashed: {reason!r}") from reason

    async def _close(self, starting: asyncio.Task[Any], reason: str) -> None:
        """Take no further records, finish those in flight, commit, and leave the group."""
        self._worker.health.stopping = True
        consumer = self._worker.consumer()
        in_flight = {one.name: one.in_hand for one in self._worker.pipelines if one.in_hand}
        _log.info("stopping", reason=reason, in_flight=in_flight)
        if consumer is not None:
            consumer.stop_flow()
            self._worker.app.flow_control.suspend()
            self._worker.app.flow_control.clear()
        self._worker.begin_nothing()
        await self._worker.finish(stop_seconds(self._worker.settings))
        released = sum(one.released for one in self._worker.pipelines)
        starting.cancel()
        try:
            await asyncio.wait_for(self._worker.app.stop(), CLOSE_SECONDS)
        except TimeoutError:
            _log.warning("leaving the group took too long; stopped without leaving", seconds=CLOSE_SECONDS)
        again = 0 if consumer is None else consumer.uncommitted
        _log.info("stopped", reason=reason, finished=sum(in_flight.values()) - released, read_again=again)


async def _ended_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run a coroutine unless `stop` is set first; return whether it completed."""
    working = asyncio.create_task(work)
    asked = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        return False
    finally:
        for task in (working, asked):
            task.cancel()
        await asyncio.gather(working, asked, return_exceptions=True)
