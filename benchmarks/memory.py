"""Resident memory of a worker that judges 1%: `python -m benchmarks.memory --events 1000000`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from benchmarks.broker import Broker, fresh_name, running_broker
from benchmarks.contest import run_contestant
from benchmarks.judgeable import event_of, instant_judge, name_of
from benchmarks.report import Line

EVENTS = 200_000
"""Default; the aim is for 1,000,000."""
MOST_MEBIBYTES = 200
GROWTH = 1.1
"""Limit of growth after the first tenth of the events."""
_DIFFERENT = 10_000


def run(events: int = EVENTS) -> Iterator[dict[str, object]]:
    """Measure; one row."""
    with running_broker() as broker, instant_judge(0.0) as base_url:
        topic = broker.topic(fresh_name("bench-memory"))
        broker.fill(topic, _events(events))
        done = run_contestant("worker", _plan(broker, topic, base_url, events))
    curve: Sequence[Sequence[float]] = done.more["curve"]
    first = max(size for _, count, size in curve if count <= events / 10 or count == curve[0][1]) / 2**20
    most = max(size for _, _, size in curve) / 2**20
    yield Line(
        f"memory: most resident memory over {events} events, 1% judged",
        round(most),
        "MiB",
        baseline=round(first),
        aim=f"below {MOST_MEBIBYTES} MiB, and at most {GROWTH:g} times the baseline",
        met=most < MOST_MEBIBYTES and most <= GROWTH * first,
        note=f"{broker.name}; baseline: after the first tenth of the events",
    ).as_json()


def _plan(broker: Broker, events: str, base_url: str, total: int) -> dict[str, Any]:
    group = fresh_name("bench-memory-worker")
    return {
        "total": total,
        "agents": ["intake", "judge"],
        "counted": "judgestream_events_total",
        "settings": {
            "kafka": {"bootstrap_servers": broker.bootstrap_servers, "group_id": group, "start": "earliest"},
            "topics": {
                "events": events,
                "prefix": f"{group}.",
                "scores": broker.topic(f"{group}.scores"),
                "create": True,
            },
            "sampling": {"default_rate": 0.01},
            "metrics": {"relevance": {"when": {"has": ["context"]}}},
            "judge": {"endpoints": [{"name": "instant", "base_url": base_url.strip(), "model": "instant-1"}]},
            "telemetry": {"port": 0, "log_level": "warning"},
        },
    }


def _events(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield events of about 1.5 KB with unique ids; unique texts would take longer than reading them."""
    bodies = [
        event_of(name_of(number), paragraphs=1).model_dump(mode="json", exclude_none=True)
        for number in range(min(count, _DIFFERENT))
    ]
    for number in range(count):
        body = bodies[number % len(bodies)]
        yield b"key-%08d" % number, orjson.dumps({**body, "event_id": f"event-{number:08d}"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N")
    for result in run(parser.parse_args().events):
        print(json.dumps(result), flush=True)
