"""Notifies a team of the start and end of incidents; every worker finds the same in the topic of alerts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from schemas import RESULT, Alert, Scored
from streams.errors import StreamsError
from streams.kafka.output import Output
from streams.kafka.reader import Ranges, TopicReader
from streams.kafka.record import Record
from streams.settings.tree import Settings
from streams.sinks.delivery import Agent, Delivery, T
from streams.store.views.incidents import Incident, find, group, part_name, step_of, title
from streams.store.views.report import Report, card, lead, report_on_scores, words_of

SETTLE_SECONDS: Final = 20.0
"""Time to wait for alerts of the same cause from other metrics' monitors."""
OLD_SECONDS: Final = 86_400.0
"""Older alerts are ignored: a new sink reads the topic from its beginning."""
SHOWN: Final = 20
COMPARED: Final = 2_000
"""Results of a partition read before and since the start of an incident, for its cause."""
CAUSE_SECONDS: Final = 30.0

_log = structlog.stdlib.get_logger(__name__)
KINDS: Final = {"began": "incident_began", "explained": "incident_explained", "over": "incident_ended"}
_INERT: Final = str.maketrans({"<": "‹", ">": "›", "@": "＠"})  # noqa: RUF001 - they look alike on purpose


def inert(text: str) -> str:
    """Return a text whose label values, which are foreign, call nobody and link nowhere in a chat."""
    return text.translate(_INERT).replace("://", ": //")


@dataclass(frozen=True, slots=True)
class Notice:
    """The start or end of an incident; `explorer` is a base URL, `report` its cause if that is known."""

    kind: str
    incident: Incident
    explorer: str | None = None
    report: Report | None = None

    @property
    def key(self) -> str:
        about = f" {len(words_of(self.incident))}" if self.kind == "incident_explained" else ""
        return f"{self.kind} {self.incident.incident_id}{about}"

    def as_json(self) -> dict[str, Any]:
        incident, link = self.incident, None
        if self.explorer is not None:
            link = f"{self.explorer.rstrip('/')}/explore/incident/{incident.incident_id}"
        lines, words, name = card(incident, self.report), words_of(incident), title(incident)
        what = {
            "incident_began": f"{name}. {'; '.join(lines)}",
            "incident_explained": f"{name}: {'; '.join(words)}",
            "incident_ended": f"over: {name}",
        }[self.kind]
        return {
            "event": self.kind,
            "incident_id": incident.incident_id,
            "text": inert(what) if link is None else f"{inert(what)} {link}",
            "card": [inert(line) for line in lines],
            "words": [inert(word) for word in words],
            "metrics": list(incident.metrics),
            "parts": [inert(part_name(*part)) for part in incident.parts[:SHOWN]],
            "parts_total": len(incident.parts),
            "alerts": [inert(alert.summary) for alert in incident.drops[:SHOWN]],
            "alerts_total": len(incident.drops),
            "started_at": incident.started_at.isoformat(),
            "raised_at": incident.raised_at.isoformat(),
            "ended_at": None if incident.ended_at is None else incident.ended_at.isoformat(),
            "url": link,
        }


class IncidentAgent(Agent):
    def __init__(
        self,
        sinks: Sequence[Delivery[Notice]],
        output: Output,
        past: TopicReader,
        settings: Settings,
        *,
        now: Callable[[], float] = time.time,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(sinks, output)
        self._past, self._now, self._wait = past, now, wait
        self._topics, self._store = settings.topics, settings.store
        self._known: dict[str, Alert] = {}
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def handle(self, record: Record) -> None:
        alert = await self._parsed(record, Alert.model_validate_json, "an alert", "alerts")
        if alert is None or self._now() - (raised := alert.raised_at.timestamp()) > OLD_SECONDS:
            return
        await self._wait(max(raised + SETTLE_SECONDS - self._now(), 0.0))
        notice = await self._news(alert)
        if notice is not None:
            await self._deliver(record, notice, notice.key)

    async def _news(self, alert: Alert) -> Notice | None:
        """Return the notice of an incident's first alert, or of the recovery that ends it."""
        async with self._reading:  # read the topic once for a burst of alerts
            settled = self._read_at >= alert.raised_at.timestamp() + SETTLE_SECONDS
            if alert.alert_id not in self._known or not settled:
                began = self._now()
                alerts = [one async for one in self._messages(self._topics.alerts, Alert.model_validate_json)]
                self._known, self._read_at = {one.alert_id: one for one in alerts}, began
        if alert.word is not None:
            self._known[alert.alert_id] = alert
        incident = find(group(self._known.values()), alert.alert_id)
        if incident is None:
            return None
        step = step_of(incident, alert)
        if step not in KINDS:
            return None
        cause = await self._cause(incident) if step == "began" else None
        return Notice(KINDS[step], incident, self._store.explorer_url, cause)

    async def _cause(self, incident: Incident) -> Report | None:
        """Return the cause, from the results around the start; a notice without it is better than none."""
        first = lead(incident)
        try:
            async with asyncio.timeout(CAUSE_SECONDS):
                places = await self._past.between(self._topics.scores, incident.started_at)
                around = {
                    partition: (max(begin - COMPARED, 0), min(end, begin + COMPARED))
                    for partition, (begin, end) in places.items()
                }
                found = self._messages(self._topics.scores, RESULT.validate_json, around)
                scored = [one async for one in found if isinstance(one, Scored) and one.replay_id is None]
        except (StreamsError, KafkaError, TimeoutError) as error:
            _log.warning("the notice of an incident names no cause", error=repr(error))
            return None
        drop = first.metric, first.fingerprint
        results = [one for one in scored if (one.metric, one.evaluator.fingerprint) == drop]
        return report_on_scores(incident, first.metric, results, self._store.product_labels)

    async def _messages(
        self, topic: str, parse: Callable[[bytes], T], ranges: Ranges | None = None
    ) -> AsyncIterator[T]:
        async for record in self._past.read(topic, ranges):
            with suppress(ValidationError):
                yield parse(record.value or b"")
