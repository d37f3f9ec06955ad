"""The alerts of real workers, Prometheus and Alertmanager.

A drop pages once; a new mix and a swing do not: three installations get a fortnight of results at once, with
the times of that fortnight, and Prometheus scrapes the final state of their monitors. Of an installation of
four processes one is killed, and its alert arrives. The rules run sixty times as fast.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from math import cos, pi
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml

from judge.chat import OFFLINE_MODEL
from judge.offline.server import OfflineJudge
from schemas import Scored
from tests.alerting.installation import traffic
from tests.alerting.monitoring import monitoring
from tests.integration.deadlines import until
from tests.integration.kafka import free_ports
from tests.integration.stage import Stage
from tests.streams.cli.processes import Service, running
from tests.streams.results import scored
from tests.threaded_broker import broker_in_thread

pytestmark = [pytest.mark.tools, pytest.mark.timeout(480)]

_FACTOR = 60
_DAYS: Final = 14
_A_DAY: Final = 300
_DAY_SECONDS: Final = 86_400
_PAGES: Final = ("JudgestreamDrop", "JudgestreamScoreBelowFloor")


def _dropping(_: Random, number: int) -> tuple[str, float]:
    """The share of bad answers rises from 12% to 50% on the last day."""
    return "ab"[number % 2], 0.12 if number < (_DAYS - 1) * _A_DAY else 0.5


def _mixed(random: Random, number: int) -> tuple[str, float]:
    """A weak app has a tenth of the traffic, and seven tenths on the last two days; no app gets worse."""
    weak = random.random() < (0.1 if number < (_DAYS - 2) * _A_DAY else 0.7)
    return ("weak", 0.6) if weak else ("good", 0.05)


def _swinging(_: Random, number: int) -> tuple[str, float]:
    """The mean swings by 0.2 points every day: good answers average 4.6 and bad ones 2."""
    return "a", 0.12 - 0.2 / 2.6 * cos(2 * pi * number / _A_DAY)


def _results(seed: int, law: Callable[[Random, int], tuple[str, float]]) -> list[Scored]:
    """Return a fortnight's results of a law, which gives the app and the share of bad answers."""
    random, results = Random(seed), []
    for number in range(_DAYS * _A_DAY):
        app, bad_share = law(random, number)
        score = random.choice((1, 2, 2, 3) if random.random() < bad_share else (4, 4, 5, 5, 5))
        seconds = number * _DAY_SECONDS / _A_DAY
        results.append(scored(number, score, metric="tone", labels={"app": app}, seconds=seconds))
    return results


async def test_a_drop_pages_once_and_neither_a_new_mix_nor_a_swing_pages(tmp_path: Path) -> None:
    laws = {"dropping": _dropping, "mixed": _mixed, "swinging": _swinging}
    made = {name: _results(seed, law) for seed, (name, law) in enumerate(laws.items(), start=1)}
    async with AsyncExitStack() as stack:
        servers = stack.enter_context(broker_in_thread())
        stages: dict[str, Stage] = {}
        scraped = {}
        for name in made:
            folder = tmp_path / name
            folder.mkdir()
            stage = stages[name] = Stage(servers, folder, changes={"monitor.labels": ["app"]})
            running, _ = await stack.enter_async_context(stage.worker(None, agents=["monitor"]))
            scraped[name] = [running.url.removeprefix("http://")]
        for name, results in made.items():
            keyed = [(b"one partition", one.model_dump_json().encode()) for one in results]
            await stages[name].produce_keyed(keyed, topic="scores")

        async def observed() -> bool:
            await asyncio.sleep(0.5)  # each poll opens a few connections
            for name, stage in stages.items():
                group = f"{stage.settings.kafka.group_id}.monitor"
                taken = await stage.committed("observations", group)
                if sum(offset or 0 for offset in taken) < len(made[name]):
                    return False
            return True

        await until(observed, "all results observed", deadline_seconds=240)
        # Started last: a busy worker misses scrapes, and several missed scrapes resolve an alert.
        watch = await stack.enter_async_context(monitoring(tmp_path, scraped, factor=_FACTOR))
        await watch.notified("firing", "JudgestreamDrop", "dropping")

        async def scraped_since() -> bool:
            states = 'judgestream_monitor_state{job=~"mixed|swinging", slice="all", measure="mean"}'
            return len(await watch.query(f"count_over_time({states}[1h]) > 9")) == 2

        await until(scraped_since, "ten scrapes of the states of mix and swing")
        assert await watch.query('judgestream_monitor_state{job="mixed", slice="all", measure="mix"} == 2')
        assert await watch.rule_errors() == []
        firing = [alert["labels"] for alert in watch.received if alert["status"] == "firing"]
        pages = [(one["job"], one["alertname"]) for one in firing if one["alertname"] in _PAGES]
        assert pages == [("dropping", "JudgestreamDrop")]
        # The monitors raised no other alert that Prometheus missed.
        kinds = {name: {alert.measure for alert in await stage.alerts()} for name, stage in stages.items()}
        assert "mean" in kinds["dropping"]
        assert kinds["mixed"] & {"mean", "mix"} == {"mix"}
        assert kinds["swinging"] == set()


_PARTS = ("intake", "judge", "monitor", "store")
_JOB = "split"
_EXPECTED = {"JudgestreamNoWorker", "JudgestreamWorkerDown"}


def _settings(folder: Path, part: str, port: int, broker: str, judge: str) -> Path:
    document: dict[str, Any] = {
        "kafka": {"bootstrap_servers": broker, "start": "earliest"},
        "topics": {"create": True},
        "judge": {
            "endpoints": [{"name": "offline", "base_url": judge, "model": OFFLINE_MODEL}],
            "budget": "none",
        },
        "metrics": {"coverage": {}, "relevance": {}},
        "telemetry": {"host": "127.0.0.1", "port": port},
        "store": {"path": str(folder / "verdicts.db")},
    }
    path = folder / f"{part}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


async def test_a_killed_part_is_notified_and_so_is_its_return(tmp_path: Path) -> None:
    """The alert names the agent of the killed process, no other pages, and it is resolved afterwards."""
    async with AsyncExitStack() as stack:
        port, *ports = free_ports(1 + len(_PARTS))
        broker = f"127.0.0.1:{port}"
        await (await stack.enter_async_context(running("broker", "--port", str(port)))).line()
        judge = await stack.enter_async_context(OfflineJudge(latency_seconds=0.0))
        workers: dict[str, Service] = {}

        async def start(part: str, its_port: int) -> None:
            path = _settings(tmp_path, part, its_port, broker, judge.base_url)
            workers[part] = await stack.enter_async_context(
                running("worker", "--config", str(path), "--agents", part)
            )

        for part, its_port in zip(_PARTS, ports, strict=True):
            await start(part, its_port)
        await stack.enter_async_context(traffic(broker, "qa.events", rate=4.0))
        scraped = {_JOB: [f"127.0.0.1:{its_port}" for its_port in ports]}
        watch = await stack.enter_async_context(monitoring(tmp_path, scraped, factor=_FACTOR))

        async def calm() -> bool:
            parts = await watch.query(
                "count by (agent) (count_over_time(judgestream_worker_info[10m]) >= 10)"
            )
            results = await watch.query("sum(increase(judgestream_results_total[10m])) > 10")
            await asyncio.sleep(0.5)  # three queries load a busy machine
            silent = not await watch.query('ALERTS{alertstate="firing"}')
            return {one["metric"]["agent"] for one in parts} == set(_PARTS) and bool(results) and silent

        await until(calm, "all parts seen for ten scrapes, results, and no alert", deadline_seconds=120)
        assert await watch.rule_errors() == []
        watch.received.clear()

        await workers["monitor"].stop(signal.SIGKILL)
        told = await watch.notified("firing", "JudgestreamNoWorker", _JOB)
        assert told["labels"]["agent"] == "monitor"
        assert told["labels"]["severity"] == "critical"
        assert told["annotations"]["summary"].startswith("No worker runs the monitor: ")

        await start("monitor", ports[_PARTS.index("monitor")])
        await watch.notified("resolved", "JudgestreamNoWorker", _JOB)
        assert {one["labels"]["alertname"] for one in watch.received} <= _EXPECTED
        assert {one["labels"].get("agent") for one in watch.received} <= {"monitor", None}
