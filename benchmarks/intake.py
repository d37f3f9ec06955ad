"""Speed of reading events of which few are judged: the worker compared with three other readers.

Each contestant reads the same topic in its own process and writes the kept events to another topic, confirmed
by the broker. judgestream also validates kept events, builds tasks and counts. Contestants take turns; the
best round of each counts, because other load can only slow a round down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from benchmarks.broker import Broker, fresh_name, running_broker
from benchmarks.contest import ContestantError, Run, fastest, leanest, run_contestant
from benchmarks.peers import PeersUnavailableError, peers_python
from benchmarks.report import Line

ROUNDS = 3
_TEXT = (
    "The river\u2019s level rises in spring, when snow melts on the slopes above the old town \u2013 "
    "\u201cevery year\u201d, they say \u2013 and "
    'the "lower streets" are flooded for days, so that shops close early and the ferries stop. Evidence: '
    "[Page 2]\n"
)
"""About as many quotes, line ends and non-ASCII characters as in model answers."""


@dataclass(frozen=True, slots=True)
class _Case:
    """One of the two cases."""

    name: str
    records: Mapping[str, int]
    """Records by contestant; slow ones read fewer."""
    body_bytes: int
    decision: Mapping[str, Any]
    sampling: Mapping[str, Any]
    aims: Mapping[str, float]
    baseline: str


_BY_KEY = _Case(
    name="intake: 1% kept by key, 1 KB",
    records={"worker": 300_000, "intake_bare": 300_000, "intake_quix": 200_000, "intake_faust": 25_000},
    body_bytes=1_000,
    decision={"choice": "key", "rate": 0.01},
    sampling={"default_rate": 0.01, "key": "record_key"},
    aims={"intake_bare": 0.9, "intake_faust": 20.0, "intake_quix": 1.5},
    baseline="bare aiokafka + predicate",
)
_BY_LABEL = _Case(
    name="intake: strata by label in a 4 KB body",
    records={"worker": 100_000, "intake_bare": 100_000, "intake_quix": 40_000, "intake_faust": 15_000},
    body_bytes=4_000,
    decision={"choice": "label", "label": "tenant", "rates": {"gold": 0.25}, "rate": 0.005},
    sampling={
        "default_rate": 0.005,
        "rules": [{"name": "gold", "when": {"tenant": "gold"}, "rate": 0.25}],
    },
    aims={"intake_bare": 3.0},
    baseline="bare aiokafka + json.loads",
)


def run() -> Iterator[dict[str, object]]:
    """Measure both cases."""
    try:
        peers, missing = peers_python(), None
    except PeersUnavailableError as error:
        peers, missing = "", str(error)
    with running_broker() as broker:
        for case in (_BY_KEY, _BY_LABEL):
            for line in _measure(case, broker, peers, missing):
                yield line.as_json()


def _measure(case: _Case, broker: Broker, peers: str, missing: str | None) -> Iterator[Line]:
    events = _filled(case, broker, max(case.records.values()))
    runs: dict[str, list[Run]] = {name: [] for name in case.records}
    problems = {} if missing is None else {"intake_quix": missing}
    for number in range(ROUNDS):
        for name, records in case.records.items():
            if name in problems or (name == "intake_faust" and number):
                continue  # a round of Faust takes as long as all others together
            plan = _plan(case, broker, events, records)
            try:
                runs[name].append(run_contestant(name, plan, python=peers if name == "intake_quix" else None))
            except ContestantError as error:
                if name == "worker":
                    raise
                problems[name] = str(error)
    for name, title in (
        ("intake_bare", case.baseline),
        ("intake_faust", "stock Faust"),
        ("intake_quix", "Quix Streams"),
    ):
        yield from _compared(
            case, broker.name, title, runs["worker"], runs[name], case.aims.get(name), problems.get(name)
        )


def _compared(
    case: _Case,
    broker: str,
    title: str,
    ours: Sequence[Run],
    theirs: Sequence[Run],
    aim: float | None,
    problem: str | None,
) -> Iterator[Line]:
    """Yield a row for the rate and one for the CPU time, compared with one other contestant."""
    rate, cpu = fastest(ours).rate, leanest(ours).cpu_microseconds
    other_rate = fastest(theirs).rate if theirs else None
    other_cpu = leanest(theirs).cpu_microseconds if theirs else None
    note = f"{broker}; baseline: {title}" + (f" is not there: {problem}" if problem else "")
    yield Line(
        f"{case.name}, against {title}",
        round(rate),
        "records/s",
        baseline=None if other_rate is None else round(other_rate),
        aim=None if aim is None else f"at least {aim:g} times the baseline",
        met=None if aim is None or other_rate is None else rate >= aim * other_rate,
        note=note,
    )
    yield Line(
        f"{case.name}, CPU time, against {title}",
        round(cpu, 2),
        "us/record",
        baseline=None if other_cpu is None else round(other_cpu, 2),
        note=f"{note}; the process with all its threads, lower is better",
    )


def filled(broker: Broker, count: int) -> str:
    """Fill a topic with events for `worker_plan`, and return its name."""
    return _filled(_BY_KEY, broker, count)


def worker_plan(broker: Broker, events: str, total: int) -> dict[str, Any]:
    """Return the plan of a worker that keeps 1% by key."""
    return _plan(_BY_KEY, broker, events, total)


def _filled(case: _Case, broker: Broker, count: int) -> str:
    events = broker.topic(fresh_name("bench-events"))
    broker.fill(events, _events(case.body_bytes, count))
    return events


def _plan(case: _Case, broker: Broker, events: str, total: int) -> dict[str, Any]:
    group = fresh_name("bench-intake")
    return {
        **case.decision,
        "bootstrap_servers": broker.bootstrap_servers,
        "group": group,
        "events": events,
        "tasks": broker.topic(f"{group}.judge.tasks.coverage"),
        "total": total,
        "agents": ["intake"],
        "counted": "judgestream_events_total",
        "settings": {
            "kafka": {"bootstrap_servers": broker.bootstrap_servers, "group_id": group, "start": "earliest"},
            "topics": {"events": events, "prefix": f"{group}.", "create": True},
            "sampling": case.sampling,
            "metrics": {"coverage": {"when": {"has": ["reference"]}}},
            "telemetry": {"port": 0, "log_level": "warning"},
        },
    }


def _events(body_bytes: int, count: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield events of about this size, with the labels last, as the model writes them."""
    text = _TEXT * (body_bytes // len(_TEXT) + 1)
    share = (body_bytes - 250) // 3 * len(_TEXT) // len(orjson.dumps(_TEXT))
    texts = {"question": text[:share], "answer": text[share : 2 * share], "reference": text[:share]}
    for number in range(count):
        event = {
            "event_id": f"event-{number:08d}",
            **texts,
            "labels": {
                "app": "bench",
                "model": "m-1",
                "tenant": "gold" if number % 50 == 0 else f"t{number % 40}",
            },
        }
        yield b"key-%08d" % number, orjson.dumps(event)


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result), flush=True)
