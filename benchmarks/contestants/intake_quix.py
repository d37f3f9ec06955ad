"""Quix Streams: a filter and an output topic.

Runs in the peers' environment, without this project's packages.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]  # in the peers' environment alone

from benchmarks.contestants.choice import choice, handed_on
from benchmarks.contestants.pace import Pace


def _run(plan: dict[str, Any], pace: Pace) -> None:
    with tempfile.TemporaryDirectory() as directory:
        app = Application(
            broker_address=plan["bootstrap_servers"],
            consumer_group=plan["group"],
            auto_offset_reset="earliest",
            auto_create_topics=False,
            state_dir=directory,
            loglevel="WARNING",
        )
        events = app.topic(plan["events"], key_deserializer="bytes", value_deserializer="bytes")
        tasks = app.topic(plan["tasks"], key_serializer="bytes", value_serializer="bytes")
        decide = choice(plan)
        count = 0

        def keep(value: bytes, key: bytes, timestamp: int, headers: Any) -> bool:  # noqa: ARG001 - the form that Quix Streams gives
            nonlocal count
            count += 1
            if pace.seen(count):
                app.stop()
            return decide(key, value)

        frame = app.dataframe(events).filter(keep, metadata=True)
        frame.apply(handed_on).to_topic(tasks)
        app.run()


if __name__ == "__main__":
    the_plan = json.loads(sys.argv[1])
    the_pace = Pace(the_plan["total"])
    _run(the_plan, the_pace)
    the_pace.tell()
