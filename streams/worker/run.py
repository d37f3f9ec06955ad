"""Run a worker: its agents on one application, and its port, from start to orderly shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry

from judge.chat import ChatClient
from judge.errors import JudgeError
from streams.errors import StreamsError
from streams.kafka.topics.admin import ensure_topics
from streams.kafka.topics.grants import worker_grants
from streams.kafka.topics.table import AGENTS, AgentName, plan_topics
from streams.settings.tree import Settings
from streams.web.port import open_access
from streams.worker.agents import add_agents
from streams.worker.server import serve
from streams.worker.worker import Worker

_log = structlog.stdlib.get_logger(__name__)

STOP_SECONDS: Final = 20.0
"""Shutdown timeout of the records in flight, unless judge calls may take longer."""
LONGEST_STOP_SECONDS: Final = 120.0
CLOSE_SECONDS: Final = 15.0
"""Timeout of leaving the group and flushing."""


def stop_seconds(settings: Settings) -> float:
    """Return the time for records in flight; a cancelled judge call would be paid for and then repeated."""
    return max(STOP_SECONDS, min(settings.judge.timeout_seconds + 5, LONGEST_STOP_SECONDS))


async def run_worker(
    settings: Settings,
    *,
    stop: asyncio.Event,
    agents: Collection[AgentName] = AGENTS,
    registry: CollectorRegistry | None = None,
    chat: ChatClient | None = None,
    env: Mapping[str, str] | None = None,
    on_ready: Callable[[Worker], None] = lambda _: None,
    finish_seconds: float | None = None,
) -> None:
    """Run agents until `stop` is set. Several workers may run in one event loop; the caller handles signals.

    On a stop no further records are taken, records in flight get `finish_seconds` (by default
    `stop_seconds`) to finish, offsets are committed, and the worker leaves its group.

    Args:
        chat: The judge, closed by the caller; by default the endpoints of the settings.
        on_ready: Called once, when partitions are assigned.
    """
    finish = stop_seconds(settings) if finish_seconds is None else finish_seconds
    worker = Worker(settings, agents=agents, registry=registry, chat=chat, env=env)
    try:
        _tell_start(worker)
        # Report invalid settings before waiting for the broker.
        add_agents(worker)
        port = await serve(worker, *open_access(settings.telemetry, worker.env))
        worker.url = port.url
        worker.closing.append(port.stop)
        topics_ready = ensure_topics(
            settings.kafka,
            plan_topics(settings, worker.agents),
            create=settings.topics.create,
            grants=worker_grants(settings, worker.group_id, worker.agents),
        )
        if not await _ended_before(stop, topics_ready):
            return
        beside = [asyncio.create_task(run()) for run in worker.beside]

        def ready() -> None:
            group = {"group_id": worker.group_id} if worker.agents != ("store",) else {}
            _log.info("reading", **group, agents=worker.agents, url=worker.url)
            on_ready(worker)

        try:
            if worker.agents == ("store",):  # reads without a consumer group or the application
                ready()
                await stop.wait()
                worker.health.stopping = True
            else:
                await _serve(worker, stop, ready, finish)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
    finally:
        await worker.close()


def _tell_start(worker: Worker) -> None:
    settings, kafka, topics = worker.settings, worker.settings.kafka, worker.settings.topics
    _log.info("broker", bootstrap_servers=kafka.bootstrap_servers, security=kafka.security.protocol)
    _log.info(
        "topics",
        events=topics.events,
        tasks=[topics.task_topic(metric) for metric in settings.metrics],
        scores=topics.scores,
        dead_letters=topics.dead_letters,
        alerts=topics.alerts,
    )
    _log.info("group", group_id=worker.group_id, agents=list(worker.agents))
    _log.info(
        "sampling",
        default_rate=settings.sampling.default_rate,
        rules={rule.name: rule.rate for rule in settings.sampling.rules},
        metrics={name: metric.rate for name, metric in settings.metrics.items()},
    )


async def _serve(
    worker: Worker, stop: asyncio.Event, ready: Callable[[], None], finish_seconds: float
) -> None:
    app = worker.app
    asked = asyncio.create_task(stop.wait())
    crashed = asyncio.create_task(app._crashed.wait())  # noqa: SLF001 - mode has no public way to wait for it
    starting = asyncio.create_task(app.start())
    try:
        await asyncio.wait({asked, crashed, starting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and not starting.cancelled() and starting.exception() is None:
            if not (asked.done() or crashed.done()):
                ready()
            await asyncio.wait({asked, crashed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        crash = app.crash_reason
        why = getattr(stop, "reason", "asked to") if crash is None else f"crash: {type(crash).__name__}"
        await _close(worker, starting, why, finish_seconds)
        asked.cancel()
        crashed.cancel()
    failure = None if not starting.done() or starting.cancelled() else starting.exception()
    if failure is not None:
        raise StreamsError(f"the worker could not start: {failure!r}") from failure
    reason = app.crash_reason
    if isinstance(reason, StreamsError | JudgeError):
        raise reason
    if reason is not None:
        raise StreamsError(f"the worker crashed: {reason!r}") from reason


async def _close(worker: Worker, starting: asyncio.Task[Any], reason: str, finish_seconds: float) -> None:
    worker.health.stopping = True
    consumer = worker.consumer()
    in_flight = {one.name: one.in_hand for one in worker.pipelines if one.in_hand}
    _log.info("stopping", reason=reason, in_flight=in_flight)
    if consumer is not None:
        consumer.stop_flow()
        worker.app.flow_control.suspend()
        worker.app.flow_control.clear()
    # Take no further records, and send no judge call for a verdict that has not started.
    for pipeline in worker.pipelines:
        pipeline.close()
    if worker.pool is not None:
        worker.pool.drain(close=True)
    await worker.finish(finish_seconds)
    released = sum(one.released for one in worker.pipelines)
    starting.cancel()
    try:
        await asyncio.wait_for(worker.app.stop(), CLOSE_SECONDS)
    except TimeoutError:
        _log.warning("leaving the group took too long; stopped without leaving", seconds=CLOSE_SECONDS)
    again = 0 if consumer is None else consumer.uncommitted
    _log.info("stopped", reason=reason, finished=sum(in_flight.values()) - released, read_again=again)


async def _ended_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Return whether a coroutine completed before `stop` was set."""
    working = asyncio.create_task(work)
    asked = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        return working.done()
    finally:
        for task in (working, asked):
            task.cancel()
        await asyncio.gather(working, asked, return_exceptions=True)
