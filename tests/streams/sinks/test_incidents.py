"""The incident webhook: one request when an incident begins and one when it ends, retried until accepted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from schemas import Alert, Scored, Shift, Word
from streams.kafka.reader import Ranges
from streams.settings.tree import Settings
from streams.sinks.incidents import SETTLE_SECONDS, IncidentAgent, inert
from tests.streams.records import Outbox
from tests.streams.results import alert, at, scored
from tests.streams.sinks.receiving import Server, way


def record_of(alert: Alert) -> Any:
    return SimpleNamespace(value=alert.model_dump_json().encode())


@dataclass
class Topic:
    """The topic of alerts, and how often it was read."""

    alerts: list[Alert]
    readings: int = 0
    results: list[Scored] = field(default_factory=list)

    async def read(self, topic: str, ranges: Ranges | None = None) -> AsyncIterator[Any]:
        if ranges is not None:
            assert topic == "qa.scores"
            for result in self.results[slice(*ranges.get(0, (0, 0)))]:
                yield SimpleNamespace(value=result.model_dump_json().encode())
            yield SimpleNamespace(value=b"not a result")
            return
        assert topic == "qa.alerts"
        self.readings += 1
        for one in self.alerts:
            yield record_of(one)

    async def between(self, topic: str, since: datetime) -> Ranges:
        assert topic == "qa.scores"
        begin = sum(one.times.occurred_at < since for one in self.results)
        return {0: (begin, len(self.results))} if self.results else {}


OF_PART: Any = {"metric": "coverage", "labels": {"app": "docs"}}
PART = alert("a2", **OF_PART, seconds=5)
ALERTS = [alert("a1", labels={}), PART]
OVER = [alert("r1", "recovered", 900), alert("r2", "recovered", 960, **OF_PART)]


async def told(alerts: list[Alert], topic: Topic, server: Server, *, now: float = 0) -> Outbox:
    """Handle alerts at `now` seconds after the first, with a clock that does not wait."""
    outbox, clock = Outbox(), at(now).timestamp()
    store = {"explorer_url": "https://x.org/", "product_labels": ["prompt_version"]}
    settings = Settings.model_validate({"store": store})

    async def wait(seconds: float) -> None:
        nonlocal clock
        clock += seconds

    async with way(server, "incident_webhook") as one:
        parts: tuple[Any, Any] = outbox, topic
        agent = IncidentAgent([one.delivery], *parts, settings, now=lambda: clock, wait=wait)
        for given in alerts:
            await agent.handle(record_of(given))
    return outbox


async def test_an_incident_gives_a_request_at_start_and_end() -> None:
    """Four alerts of an incident on two workers give two requests; the first lists its parts."""
    server, topic = Server(), Topic([*ALERTS, *OVER])
    await told([ALERTS[0], OVER[0]], Topic(ALERTS), server)
    await told([ALERTS[1]], Topic(ALERTS), server)
    await told([OVER[1]], topic, server, now=960)
    bodies = server.bodies()
    assert [body["event"] for body in bodies] == ["incident_began", "incident_ended"]
    began = bodies[0]
    assert began["incident_id"] == "a1"
    assert began["parts"] == ["relevance of all answers", "coverage of app=docs"]
    assert began["text"].startswith("coverage and relevance fell, 2 parts affected. summary of a1")
    assert began["url"] == "https://x.org/explore/incident/a1"
    assert (began["ended_at"], bodies[1]["ended_at"] is None) == (None, False)


async def test_a_word_on_an_alarm_is_a_request_of_its_own() -> None:
    """It comes in the same alert, published again; the start of the incident is told once."""
    word = Word(
        said="product", judge=shift(0.0), product=shift(0.5), product_is_fine=False, decided_at=at(600),
        text="The product moved, ask @team.",
    )  # fmt: skip
    server, explained = Server(), ALERTS[0].model_copy(update={"word": word})
    await told([ALERTS[0], explained], Topic(ALERTS), server)
    bodies = server.bodies()
    assert [body["event"] for body in bodies] == ["incident_began", "incident_explained"]
    assert (bodies[0]["words"], bodies[1]["words"]) == ([], ["relevance: The product moved, ask ＠team."])  # noqa: RUF001
    assert ", 2 parts affected: relevance: The product" in bodies[1]["text"]


def shift(mean: float) -> Shift:
    return Shift(mean=mean, low=mean - 0.1, high=mean + 0.1, count=120)


async def test_the_request_names_the_cause() -> None:
    server = Server()
    results = [
        scored(number, score, labels={"prompt_version": version}, seconds=number - 120.0)
        for number, (score, version) in enumerate([(5, "v7")] * 60 + [(1, "v8")] * 60)
    ]
    drop = alert("a1", labels={}, fingerprint="f1", started_at=at(-60))
    await told([drop], Topic([drop, PART], results=results), server)
    body = server.bodies()[0]
    assert body["card"] == [
        "summary of a1",
        "cause: at the same time as prompt_version=v8 replaced all others (100% of the fall of 4.00)",
        "also: coverage of app=docs",
    ]
    assert "prompt_version=v8 replaced all others" in body["text"]


async def test_what_is_refused_is_set_aside() -> None:
    outbox = await told(ALERTS[:1], Topic(ALERTS), Server([(400, {})]))
    said = "sinks.test: the receiver refused the incident_began a1, HTTP 400"
    assert outbox.letters == [("unroutable", said)]


async def test_a_burst_reads_the_topic_once_and_old_alerts_are_not_sent() -> None:
    for seconds, times in ((SETTLE_SECONDS + 10, 1), (2 * 86_400, 0)):
        topic, server = Topic(ALERTS), Server()
        await told(ALERTS, topic, server, now=seconds)
        assert (topic.readings, len(server.asked)) == (times, times)


def test_a_label_value_calls_nobody_and_links_nowhere() -> None:
    assert inert("app=<!channel> <https://evil.example|ok> @all") == (
        "app=‹!channel› ‹https: //evil.example|ok› ＠all"  # noqa: RUF001 - as sent
    )
