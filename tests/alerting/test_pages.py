"""The alerts of a real worker, Prometheus and Alertmanager: a drop pages once; a new mix and a swing do not.

Three installations get a fortnight of results at once, with the times of that fortnight, from which season
and mix are learned. Prometheus scrapes the final state of their monitors. The rules run sixty times as fast.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from math import cos, pi
from pathlib import Path
from random import Random
from typing import Final

import pytest

from schemas import Scored
from tests.alerting.monitoring import Scraped, monitoring
from tests.integration.deadlines import until
from tests.integration.stage import Stage
from tests.streams.randomness import seeded
from tests.streams.results import scored
from tests.threaded_broker import broker_in_thread

pytestmark = [pytest.mark.tools, pytest.mark.timeout(480)]

_FACTOR = 60
_DAYS: Final = 14
_A_DAY: Final = 300
_DAY_SECONDS: Final = 86_400
_PAGES: Final = ("JudgestreamDrop", "JudgestreamScoreBelowFloor")


def _result(number: int, *, app: str, bad_share: float, random: Random) -> Scored:
    score = random.choice((1, 2, 2, 3) if random.random() < bad_share else (4, 4, 5, 5, 5))
    seconds = number * _DAY_SECONDS / _A_DAY
    return scored(number, score, metric="tone", labels={"app": app}, seconds=seconds)


def _dropping() -> list[Scored]:
    """The share of bad answers rises from 12% to 50% on the last day."""
    random, last = seeded(1), (_DAYS - 1) * _A_DAY
    return [
        _result(number, app="ab"[number % 2], bad_share=0.12 if number < last else 0.5, random=random)
        for number in range(_DAYS * _A_DAY)
    ]


def _mixed() -> list[Scored]:
    """A weak app has a tenth of the traffic, and seven tenths on the last two days; no app gets worse."""
    random, last = seeded(2), (_DAYS - 2) * _A_DAY
    results = []
    for number in range(_DAYS * _A_DAY):
        weak = random.random() < (0.1 if number < last else 0.7)
        results.append(
            _result(number, app="weak" if weak else "good", bad_share=0.6 if weak else 0.05, random=random)
        )
    return results


def _swinging() -> list[Scored]:
    """The mean swings by 0.2 points every day: good answers average 4.6 and bad ones 2."""
    random = seeded(3)
    return [
        _result(number, app="a", bad_share=0.12 - 0.2 / 2.6 * cos(2 * pi * number / _A_DAY), random=random)
        for number in range(_DAYS * _A_DAY)
    ]


async def test_a_drop_pages_once_and_neither_a_new_mix_nor_a_swing_pages(tmp_path: Path) -> None:
    """The drop pages once; the new mix, which the monitor sees, and the swing raise no alert."""
    made = {"dropping": _dropping(), "mixed": _mixed(), "swinging": _swinging()}
    async with AsyncExitStack() as stack:
        servers = stack.enter_context(broker_in_thread())
        stages: dict[str, Stage] = {}
        scraped = []
        for name in made:
            folder = tmp_path / name
            folder.mkdir()
            stage = stages[name] = Stage(servers, folder, changes={"monitor.labels": ["app"]})
            running, _ = await stack.enter_async_context(stage.worker(None, agents=["monitor"]))
            scraped.append(Scraped(name, running.url.removeprefix("http://")))
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
        await until(
            lambda: watch.notified("firing", "JudgestreamDrop", "dropping"),
            "the drop at the webhook",
            deadline_seconds=120,
        )

        async def scraped_since() -> bool:
            states = 'judgestream_monitor_state{job=~"mixed|swinging", slice="all", measure="mean"}'
            return len(await watch.query(f"count_over_time({states}[1h]) > 9")) == 2

        await until(scraped_since, "ten scrapes of the states of mix and swing")
        assert await watch.query('judgestream_monitor_state{job="mixed", slice="all", measure="mix"} == 2')
        assert await watch.rule_errors() == []
        firing = [alert for alert in watch.received if alert["status"] == "firing"]
        pages = Counter(
            (alert["labels"]["job"], alert["labels"]["alertname"])
            for alert in firing
            if alert["labels"]["alertname"] in _PAGES
        )
        assert pages == {("dropping", "JudgestreamDrop"): 1}
        # The monitors raised no other alert that Prometheus missed.
        kinds = {name: {alert.measure for alert in await stage.alerts()} for name, stage in stages.items()}
        assert "mean" in kinds["dropping"]
        assert kinds["mixed"] & {"mean", "mix"} == {"mix"}
        assert kinds["swinging"] == set()
