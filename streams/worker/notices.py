"""What a worker says of itself in the log, beside what its parts say."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import structlog

from streams.kafka.topics.flow import AgentName
from streams.kafka.transport.ranges import Move
from streams.settings import EndpointSettings, JudgeSettings, Settings

_log = structlog.stdlib.get_logger(__name__)


def tell_start(settings: Settings, *, group_id: str, agents: Sequence[AgentName]) -> None:
    """Say in a line each where this worker reads, what, as whom, and at which rates."""
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
    """Say which endpoints are asked, in order of preference. Of an address the host alone: a query may hold a key."""
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
    """Say that a partition goes on elsewhere than where it was read to."""
    _log.error(
        "records were removed by retention before they were read"
        if move.why == "retention"
        else "the log has become shorter, reading goes on elsewhere",
        topic=move.topic,
        partition=move.partition,
        from_offset=move.before,
        to_offset=move.after,
        lost=move.lost,
    )
