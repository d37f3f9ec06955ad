"""What a worker says of itself in the log, beside what its parts say."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import structlog

from streams.errors import StreamsError
from streams.kafka.topics.flow import AgentName
from streams.kafka.topics.removed import removed_tasks
from streams.kafka.transport.ranges import Move
from streams.settings import EndpointSettings, JudgeSettings, Settings
from streams.telemetry.instruments import Metrics

_log = structlog.stdlib.get_logger(__name__)

REMOVED_METRICS_SECONDS: Final = 300.0
"""How often it is looked for tasks of metrics that were removed."""


def tell_start(settings: Settings, *, group_id: str, agents: Sequence[AgentName]) -> None:
    """Describe in one line each where this worker reads, what, as which user, and at which rates."""
    kafka, topics = settings.kafka, settings.topics
    _log.info("broker", bootstrap_servers=kafka.bootstrap_servers, security=kafka.security.protocol)
    _log.info(
        "topics",
        events=topics.events,
        tasks=[topics.task_topic(metric) for metric in settings.metrics],
        scores=topics.scores,
        dead_letters=topics.dead_letters,
        alerts=topics.alerts,
    )
    _log.info("group", group_id=group_id, group_instance_id=kafka.group_instance_id, agents=list(agents))
    _log.info(
        "sampling",
        default_rate=settings.sampling.default_rate,
        rules={rule.name: rule.rate for rule in settings.sampling.rules},
        metrics={name: metric.rate for name, metric in settings.metrics.items()},
    )


def tell_judge(judge: JudgeSettings, endpoints: Sequence[EndpointSettings]) -> None:
    """Say which endpoints are asked, in order of preference.

    Only the host of an address is shown: a query may hold a key.
    """
    _log.info(
        "judge",
        endpoints=[
            f"{one.name}: {one.model} at {urlsplit(one.base_url).netloc.rpartition('@')[2]}"
            for one in endpoints
        ],
        max_in_flight=judge.max_in_flight,
        timeout_seconds=judge.timeout_seconds,
    )


def tell_move(move: Move) -> None:
    """Say that a partition continues elsewhere than where it was read to."""
    _log.error(
        "retention removed records before they were read"
        if move.why == "retention"
        else "the log has become shorter; resuming at another offset",
        topic=move.topic,
        partition=move.partition,
        from_offset=move.before,
        to_offset=move.after,
        lost=move.lost,
    )


async def watch_removed_metrics(settings: Settings, metrics: Metrics) -> None:
    """Look every few minutes for tasks whose metric is not in the settings."""
    while True:
        try:
            tasks = await removed_tasks(settings)
        except StreamsError as error:  # the broker is away, or does not show us that: others say so
            _log.debug("tasks of removed metrics cannot be counted", error=str(error))
        else:
            metrics.set_removed_tasks(tasks)
            for metric, count in tasks.items():
                _log.warning(
                    "tasks of a metric that is not in the settings wait; no worker judges them",
                    metric=metric,
                    tasks=count,
                    remedy=f"restore the metric, or run judgestream topics drain --metric {metric}",
                )
        await asyncio.sleep(REMOVED_METRICS_SECONDS)
