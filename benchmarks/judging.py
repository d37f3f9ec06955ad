"""Judged answers per second: the worker compared with a plain loop over the SDK.

The judge is a process with a constant valid reply over HTTP, immediate or after a second. Both read the same
tasks (an answer with three claims and their three pages), call the judge, and write a record for each,
confirmed by the broker. The worker also verifies every quotation, recomputes the score, and writes more
fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.broker import Broker, fresh_name, running_broker
from benchmarks.contest import Run, fastest, leanest, run_contestant
from benchmarks.judgeable import event_of, instant_judge, name_of
from benchmarks.report import Line
from judge.metric import unsampled_task
from judge.metrics.relevance import Relevance

ROUNDS = 2
IN_FLIGHT = 256
WORKER_TASKS = 8_000
PLAIN_TASKS = 2_500
LATENCY_SECONDS = 1.0
STEADY_CYCLES = 10
"""Consecutive calls per slot in the measured rate with a slow judge."""
_SETTLING_CYCLES = 3


def run() -> Iterator[dict[str, object]]:
    """Measure CPU time with an instant judge, and throughput with a slow one."""
    with running_broker() as broker:
        for line in (*_instant(broker), _slow(broker)):
            yield line.as_json()


def _instant(broker: Broker) -> Iterator[Line]:
    tasks = filled(broker, WORKER_TASKS)
    runs: dict[str, list[Run]] = {"worker": [], "plain": [], "tuned": []}
    with instant_judge(0.0) as base_url:
        for _ in range(ROUNDS):
            runs["worker"].append(
                run_contestant("worker", worker_plan(broker, tasks, base_url, WORKER_TASKS))
            )
            for name, tuned in (("plain", False), ("tuned", True)):
                plan = _plain_plan(broker, tasks, base_url, tuned=tuned)
                runs[name].append(run_contestant("judging_plain", plan))
    note = f"{broker.name}; 256 in flight, an instant judge; baseline: "
    yield _a_core(
        runs["worker"], runs["plain"], f"{note}the plain loop, asyncio", "at least 3 times the baseline"
    )
    yield _a_core(runs["worker"], runs["tuned"], f"{note}the plain loop with uvloop and linger_ms=10", None)
    rate, other = fastest(runs["worker"]).rate, fastest(runs["plain"]).rate
    yield Line(
        "judging: judged events a second, one process",
        round(rate),
        "events/s",
        baseline=round(other),
        note=f"{note}the plain loop, asyncio; wall-clock, with broker and judge on the same machine",
    )


def _a_core(ours: Sequence[Run], theirs: Sequence[Run], note: str, aim: str | None) -> Line:
    rate, other = (1e6 / leanest(runs).cpu_microseconds for runs in (ours, theirs))
    return Line(
        "judging: judged events a second a core",
        round(rate),
        "events/CPU s",
        baseline=round(other),
        aim=aim,
        met=None if aim is None else rate >= 3 * other,
        note=note,
    )


def _slow(broker: Broker) -> Line:
    count = IN_FLIGHT * (STEADY_CYCLES + _SETTLING_CYCLES + 2)
    tasks = filled(broker, count)
    with instant_judge(LATENCY_SECONDS) as base_url:
        done = run_contestant("worker", worker_plan(broker, tasks, base_url, count))
    begin = _time_of(done.more["curve"], IN_FLIGHT * _SETTLING_CYCLES)
    end = _time_of(done.more["curve"], IN_FLIGHT * (_SETTLING_CYCLES + STEADY_CYCLES))
    rate, most = IN_FLIGHT * STEADY_CYCLES / (end - begin), IN_FLIGHT / LATENCY_SECONDS
    return Line(
        "judging: judged events a second, judge of 1 s",
        round(rate, 1),
        "events/s",
        baseline=most,
        aim="at least 0.97 times the baseline",
        met=rate >= 0.97 * most,
        note=f"{broker.name}; 256 in flight; baseline: 256 / latency; over {STEADY_CYCLES} calls a slot "
        "after the first "
        f"{_SETTLING_CYCLES}",
    )


def _time_of(curve: Sequence[Sequence[float]], count: int) -> float:
    """Return when this many were done, interpolated."""
    before = (curve[0][0], 0.0)
    for seconds, reached, _ in curve:
        if reached >= count:
            share = (count - before[1]) / (reached - before[1])
            return before[0] + share * (seconds - before[0])
        before = (seconds, reached)
    raise ValueError(f"count must be at most {before[1]}, got {count}")


def filled(broker: Broker, count: int) -> str:
    """Fill a topic with tasks for `worker_plan`, and return its name."""
    topic = broker.topic(f"{fresh_name('bench-judge')}.judge.tasks.relevance")
    broker.fill(topic, judge_tasks(count))
    return topic


def judge_tasks(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of tasks for the judge of `instant_judge`, each with unique texts."""
    metric, now = Relevance(), datetime.now(UTC)
    for number in range(count):
        task = unsampled_task(event_of(name_of(number)), metric, source="bench", now=now, number=number)
        yield task.event_id.encode(), task.model_dump_json().encode()


def worker_plan(broker: Broker, tasks: str, base_url: str, total: int) -> dict[str, Any]:
    """Return the plan of a worker that judges these tasks."""
    group = fresh_name("bench-worker")
    return {
        "total": total,
        "agents": ["judge"],
        "counted": "judgestream_results_total",
        "settings": {
            "kafka": {"bootstrap_servers": broker.bootstrap_servers, "group_id": group, "start": "earliest"},
            "topics": {
                "prefix": tasks.removesuffix("judge.tasks.relevance"),
                "scores": broker.topic(f"{group}.scores"),
                "create": True,
            },
            "metrics": {"relevance": {"when": {"has": ["context"]}}},
            "judge": {
                "endpoints": [{"name": "instant", "base_url": base_url.strip(), "model": "instant-1"}],
                "max_in_flight": IN_FLIGHT,
            },
            "telemetry": {"port": 0, "log_level": "warning"},
        },
    }


def _plain_plan(broker: Broker, tasks: str, base_url: str, *, tuned: bool) -> dict[str, Any]:
    group = fresh_name("bench-plain")
    return {
        "total": PLAIN_TASKS,
        "bootstrap_servers": broker.bootstrap_servers,
        "group": group,
        "tasks": tasks,
        "scores": broker.topic(f"{group}.scores"),
        "base_url": base_url.strip(),
        "in_flight": IN_FLIGHT,
        "uvloop": tuned,
        "linger_ms": 10 if tuned else 0,
    }


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result), flush=True)
