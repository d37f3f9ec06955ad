"""Faust as in its documentation: an agent that reads every event and forwards some."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from typing import Any

import faust

from benchmarks.contestants.choice import choice, handed_on
from benchmarks.contestants.pace import Pace


def _app(plan: dict[str, Any], pace: Pace, done: asyncio.Event, directory: str) -> faust.App:
    app = faust.App(
        plan["group"],
        broker=f"kafka://{plan['bootstrap_servers']}",
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        store="memory://",
        datadir=directory,
    )
    events = app.topic(
        plan["events"], key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
    )
    tasks = app.topic(
        plan["tasks"], key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
    )
    keep = choice(plan)

    @app.agent(events)  # type: ignore[untyped-decorator]  # Faust has no usable annotations
    async def intake(stream: Any) -> None:
        count = 0
        async for event in stream.events():
            if keep(event.key, event.value):
                await tasks.send(key=event.key, value=handed_on(event.value))
            count += 1
            if pace.seen(count):
                done.set()

    return app


async def _run(plan: dict[str, Any], pace: Pace) -> None:
    done = asyncio.Event()
    with tempfile.TemporaryDirectory() as directory:
        app = _app(plan, pace, done, directory)
        await app.start()
        await done.wait()
        await app.stop()


if __name__ == "__main__":
    the_plan = json.loads(sys.argv[1])
    the_pace = Pace(the_plan["total"])
    asyncio.run(_run(the_plan, the_pace))
    the_pace.tell()
