"""What a worker says of itself in the log, beside what its parts say."""

from __future__ import annotations

import structlog

from streams.kafka.transport.ranges import Move

_log = structlog.stdlib.get_logger(__name__)


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
