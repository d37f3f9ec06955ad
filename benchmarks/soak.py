"""A long run for leaks: a million events on Kafka, 1% judged.

`python -m benchmarks.soak [--events N] [--rate R]` prints a sample every few seconds and the findings at the
end, one JSON object per line. Not part of `make bench`: it takes minutes. The worker runs in its own process
and reports its tasks, file descriptors, sockets, memory and lag.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry

from benchmarks.broker import PARTITIONS, Broker, fresh_name, running, running_broker
from benchmarks.report import Line
from streams.cli.running import run_until_stopped
from streams.settings.tree import Settings
from streams.telemetry.logs import set_up_logs
from streams.worker.run import run_worker

EVENTS: Final = 1_000_000
EVENTS_A_SECOND: Final = 8_000
SAMPLING_RATE: Final = 0.01
MOST_MEMORY_MIB: Final = 200
FLAT_RATIO: Final = 1.1
"""Limit of growth: last tenth compared with the second tenth (caches fill in the first)."""
STEP_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 120.0
_SHOW_EVERY = 10
_PAGE_BYTES = 4096
_MIB = 1024 * 1024
_PACK = "## System\nScore the tone.\n\n## User\n{{ item.input }}\n{{ item.output_text }}\n"
_TEXT = "The answer to it is given here, in as many words as it takes to make a kilobyte. " * 12

Sample = dict[str, float]


def main(arguments: Sequence[str]) -> int:
    """Run it; return 0 if nothing grew and nothing was left over."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"how many events (default {EVENTS})")
    parser.add_argument("--rate", type=int, default=EVENTS_A_SECOND, help="events a second, at most")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    if parsed.worker is not None:
        _be_the_worker(json.loads(parsed.worker))
        return 0
    lines = list(soak(parsed.events, parsed.rate))
    for line in lines:
        print(json.dumps(line.as_json()), flush=True)
    return 0 if all(line.met is not False for line in lines) else 1


def soak(events: int, rate: int) -> Iterator[Line]:
    """Feed a worker, sample it, and return the findings."""
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as directory,
        running_broker() as broker,
        running([sys.executable, "-m", "tests.chaos.endpoint"]) as port,
    ):
        settings = _settings(broker, Path(directory), int(port))
        with running([sys.executable, "-m", "benchmarks.soak", "--worker", json.dumps(settings)]) as ready:
            pid = int(ready)
            watch = _Watch(pid, Path(f"{directory}/samples"))
            idle = watch.wait_for(lambda sample: sample["lag"] == 0)
            started = time.monotonic()
            _feed(broker, settings["topics"]["events"], events, rate, watch)
            done = watch.wait_for(lambda sample: sample["events"] >= events and sample["lag"] == 0)
            seconds = time.monotonic() - started
            # Idle connections are closed after a while; what remains is a leak.
            rest = watch.wait_for(
                lambda sample: sample["tasks"] <= idle["tasks"] + 4 and sample["in_hand"] == 0, patient=False
            )
        yield from _findings(broker.name, events, seconds, watch.samples, idle, done, rest)


def _settings(broker: Broker, directory: Path, judge_port: int) -> dict[str, Any]:
    name = fresh_name("soak")
    pack = directory / "tone.md"
    pack.write_text(_PACK, encoding="utf-8")
    topics = {
        "events": f"{name}.events",
        "prefix": f"{name}.",
        "scores": f"{name}.scores",
        "dead_letters": f"{name}.dead",
        "alerts": f"{name}.alerts",
    }
    for topic in (
        *(topics[key] for key in ("events", "scores", "dead_letters", "alerts")),
        f"{name}.judge.tasks.tone",
    ):
        broker.topic(topic)
    return {
        "kafka": {"bootstrap_servers": broker.bootstrap_servers, "group_id": name, "start": "earliest"},
        "topics": topics,
        "sampling": {"default_rate": SAMPLING_RATE},
        "metrics": {"tone": {"prompt_pack": str(pack), "score_range": [1, 5]}},
        "judge": {
            "endpoints": [{"name": "scripted", "base_url": f"http://127.0.0.1:{judge_port}/v1", "model": "m"}]
        },
        "telemetry": {"port": 0, "labels": ["app"]},
        "samples": str(directory / "samples"),
    }


def _feed(broker: Broker, topic: str, events: int, rate: int, watch: _Watch) -> None:
    """Write the events at an even rate, one batch per second."""
    for begin in range(0, events, rate):
        due = time.monotonic() + 1.0
        broker.fill(topic, (_event(number) for number in range(begin, min(begin + rate, events))), PARTITIONS)
        watch.look()
        time.sleep(max(0.0, due - time.monotonic()))


def _event(number: int) -> tuple[bytes, bytes]:
    document = {
        "event_id": f"event-{number}",
        "question": f"What is the answer to number {number}?",
        "answer": _TEXT,
        "labels": {"app": f"app-{number % 8}", "session": f"session-{number}"},
    }
    return b"key-%d" % number, json.dumps(document).encode()


class _Watch:
    """Reads the worker's samples."""

    def __init__(self, pid: int, path: Path) -> None:
        self.samples: list[Sample] = []
        self._pid = pid
        self._path = path
        self._read = 0

    def look(self) -> None:
        """Read new samples, and print some of them."""
        if not self._path.exists():
            return
        text = self._path.read_text("ascii")
        whole = text[self._read : text.rfind("\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self.samples.append(json.loads(line))
            if len(self.samples) % _SHOW_EVERY == 0:
                print(json.dumps({"benchmark": "soak: sample", **self.samples[-1]}), flush=True)

    def wait_for(self, condition: Any, *, patient: bool = True) -> Sample:
        """Wait for a sample that meets a condition, and return it.

        After the time limit: the last sample if not `patient`.

        Raises:
            TimeoutError: No sample met the condition, and `patient` is true.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        begin = len(self.samples)
        while time.monotonic() < deadline:
            self.look()
            if len(self.samples) > begin and condition(self.samples[-1]):
                return self.samples[-1]
            os.kill(self._pid, 0)  # raises if the process has ended
            time.sleep(STEP_SECONDS / 4)
        if patient:
            raise TimeoutError(f"not within {SETTLE_SECONDS:g} s; the last sample: {self.samples[-1:]}")
        return self.samples[-1]


def _findings(
    broker: str,
    events: int,
    seconds: float,
    samples: Sequence[Sample],
    idle: Sample,
    done: Sample,
    rest: Sample,
) -> Iterator[Line]:
    note = f"{broker}; {events} events in {seconds:.0f} s, 1% judged"
    early = [one["rss_mib"] for one in samples if events * 0.1 <= one["events"] < events * 0.2]
    late = [one["rss_mib"] for one in samples if events * 0.9 <= one["events"]]
    before, after = (round(statistics.median(part or [rest["rss_mib"]]), 1) for part in (early, late))
    yield Line(
        "soak: memory at the end",
        after,
        "MiB",
        baseline=before,
        aim=f"at most {FLAT_RATIO} times the baseline, and under {MOST_MEMORY_MIB} MiB",
        met=after <= FLAT_RATIO * before and after < MOST_MEMORY_MIB,
        note=f"{note}; medians; baseline: its second tenth",
    )
    yield Line(
        "soak: memory at most",
        round(max(one["rss_mib"] for one in samples), 1),
        "MiB",
        aim=f"under {MOST_MEMORY_MIB}",
        met=max(one["rss_mib"] for one in samples) < MOST_MEMORY_MIB,
        note=note,
    )
    yield Line("soak: lag at the end", done["lag"], "records", aim="0", met=done["lag"] == 0, note=note)
    for name, spare in (("tasks", 4), ("fds", 2), ("sockets", 2), ("threads", 2)):
        # Idle at the end, compared with the maximum of the first tenth, when pools are full.
        first = max(one[name] for one in samples if one["events"] <= events * 0.1)
        yield Line(
            f"soak: {name} at the end",
            rest[name],
            name,
            baseline=max(first, idle[name]),
            aim=f"at most the baseline and {spare}",
            met=rest[name] <= max(first, idle[name]) + spare,
            note=f"{note}; baseline: the most of its first tenth",
        )


def _be_the_worker(plan: dict[str, Any]) -> None:
    samples = Path(plan.pop("samples"))
    settings = Settings.model_validate(plan)
    set_up_logs(settings.telemetry)
    registry = CollectorRegistry()

    async def run(stop: asyncio.Event) -> None:
        watch = asyncio.create_task(_write_samples(samples, registry))
        try:
            await run_worker(
                settings,
                stop=stop,
                registry=registry,
                on_ready=lambda _: print(os.getpid(), flush=True),
            )
        finally:
            watch.cancel()

    run_until_stopped(run)


async def _write_samples(path: Path, registry: CollectorRegistry) -> None:
    with path.open("a", encoding="ascii") as out:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            out.write(json.dumps(_sample(registry)) + "\n")
            out.flush()


def _sample(registry: CollectorRegistry) -> Mapping[str, float]:
    sums = {
        "judgestream_events_total": 0.0,
        "judgestream_consumer_lag_records": 0.0,
        "judgestream_results_total": 0.0,
    }
    sums["judgestream_judge_in_flight"] = 0.0
    for family in registry.collect():
        for sample in family.samples:
            if sample.name in sums:
                sums[sample.name] += sample.value
    # Minus the listing's own descriptor, which is closed by now.
    fds = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    return {
        "events": sums["judgestream_events_total"],
        "results": sums["judgestream_results_total"],
        "lag": sums["judgestream_consumer_lag_records"],
        "in_hand": sums["judgestream_judge_in_flight"],
        "blocks": sys.getallocatedblocks(),
        "heap_mib": round(_heap_bytes() / _MIB, 1),
        "rss_mib": round(int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE_BYTES / _MIB, 1),
        "tasks": len(asyncio.all_tasks()),
        "fds": len(fds),
        "sockets": sum(target.startswith("socket:") for target in fds),
        "threads": threading.active_count(),
    }


class _Mallinfo(ctypes.Structure):
    """glibc's heap statistics; see mallinfo2(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    )


def _heap_bytes() -> int:
    """Return the memory in use by C code and large objects, without Python's small objects."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    said = mallinfo()
    return int(said.uordblks + said.hblkhd)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
