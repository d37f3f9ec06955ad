"""Tells a team without Alertmanager of incidents: once when one begins, and once when it is over.

Which alerts are one incident follows from the alerts topic alone. So it is the same after a restart, and
whichever worker of several is given an alert.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson
from pydantic import ValidationError

from schemas import Alert
from streams.kafka.letters import Incoming
from streams.kafka.output import Output
from streams.kafka.stretch import StretchReader
from streams.sinks.delivery import Delivery, RefusedError
from streams.sinks.receivers import Call, refusal
from streams.sinks.signature import signed_headers
from streams.store.views.incidents.grouping import Incident, find, group
from streams.store.views.incidents.telling import part_name, title
from streams.telemetry.traces import surprise

SETTLE_SECONDS: Final = 20.0
"""An alert waits for others of the same cause, which come from other metrics' monitors."""
OLD_SECONDS: Final = 86_400.0
"""An older alert is no news: a sink that is new reads the topic from its beginning."""
SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Notice:
    """An incident has begun or is over.

    Args:
        kind: Which of the two.
        incident: It.
        explorer: Where the explorer is; None if not set.
    """

    kind: Literal["incident_began", "incident_ended"]
    incident: Incident
    explorer: str | None = None

    @property
    def key(self) -> str:
        """The same for a notice that is sent again."""
        return f"{self.kind} {self.incident.incident_id}"

    def as_json(self) -> dict[str, Any]:
        """What is sent; `text` is for people."""
        one = self.incident
        began = self.kind == "incident_began"
        what = f"{title(one)}. {one.drops[0].summary}" if began else f"over: {title(one)}"
        base = None if self.explorer is None else self.explorer.rstrip("/")
        link = None if base is None else f"{base}/explore/incident/{one.incident_id}"
        return {
            "event": self.kind,
            "incident_id": one.incident_id,
            "text": what if link is None else f"{what} {link}",
            "metrics": list(one.metrics),
            "parts": [part_name(*part) for part in one.parts[:SHOWN]],
            "parts_total": len(one.parts),
            "alerts": [alert.summary for alert in one.drops[:SHOWN]],
            "alerts_total": len(one.drops),
            "started_at": one.started_at.isoformat(),
            "raised_at": one.raised_at.isoformat(),
            "ended_at": None if one.ended_at is None else one.ended_at.isoformat(),
            "url": link,
        }


@dataclass(frozen=True, slots=True)
class IncidentWebhook:
    """JSON to an address of the team's own, signed, one incident a request."""

    secret: str
    now: Callable[[], float]

    def wants(self, _: Notice) -> bool:
        """Take every notice."""
        return True

    async def send(self, call: Call, batch: Sequence[Notice]) -> Mapping[str, str]:
        """Send each notice; give, by key, why those were refused that were."""
        refused = {}
        for one in batch:
            body = orjson.dumps(one.as_json())
            headers = signed_headers(self.secret, body, at=self.now())
            answer = await call("POST", "", body=body, headers=headers)
            if answer.status >= 300:
                refused[one.key] = refusal(answer)
        return refused


class IncidentAgent:
    """Reads alerts, and hands on what is news of an incident.

    Args:
        sinks: Where to.
        output: Where what a receiver refuses for good is set aside.
        past: Reads the topic again.
        topic: The alerts topic.
        explorer: Where the explorer is; None if not set.
        now: Seconds since the epoch.
        wait: Waits this many seconds.
    """

    def __init__(
        self,
        sinks: Sequence[Delivery[Notice]],
        output: Output,
        past: StretchReader,
        *,
        topic: str,
        explorer: str | None,
        now: Callable[[], float] = time.time,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sinks = tuple(sinks)
        self._output = output
        self._past = past
        self._topic = topic
        self._explorer = explorer
        self._now = now
        self._wait = wait
        self._known: dict[str, Alert] = {}
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def handle(self, record: Incoming) -> None:
        """Take one alert: most are of an incident that was told of already."""
        try:
            alert = Alert.model_validate_json(record.value or b"")
        except ValidationError as error:
            detail = f"value: is not an alert, {error.error_count()} problems; is topics.alerts right?"
            await self._output.dead_letter(record, "undecodable", detail)
            return
        raised = alert.raised_at.timestamp()
        if self._now() - raised > OLD_SECONDS:
            return
        await self._wait(max(raised + SETTLE_SECONDS - self._now(), 0.0))
        notice = await self._news(alert)
        if notice is None:
            return
        outcomes = await asyncio.gather(*(sink.put(notice) for sink in self._sinks), return_exceptions=True)
        for sink, outcome in zip(self._sinks, outcomes, strict=True):
            if isinstance(outcome, RefusedError):
                detail = f"sinks.{sink.name}: the receiver refuses the {notice.key}, {outcome}"
                await self._output.dead_letter(record, "unroutable", detail)
            elif isinstance(outcome, BaseException):
                raise outcome

    async def on_surprise(self, record: Any, error: Exception) -> None:
        """Set aside a record that met an unexpected error."""
        detail = surprise(error)
        await self._output.dead_letter(record, "undecodable", detail)

    async def _news(self, alert: Alert) -> Notice | None:
        """Say what an alert is news of: the first of an incident, or the recovery that ends it."""
        async with self._reading:  # a burst of alerts reads the topic once
            settled = self._read_at >= alert.raised_at.timestamp() + SETTLE_SECONDS
            if alert.alert_id not in self._known or not settled:
                await self._read()
        incident = find(group(self._known.values()), alert.alert_id)
        if incident is None:
            return None
        if alert.alert_id == incident.drops[0].alert_id:
            return Notice("incident_began", incident, self._explorer)
        if alert.kind == "recovered" and incident.ended_at == alert.raised_at:
            return Notice("incident_ended", incident, self._explorer)
        return None

    async def _read(self) -> None:
        began, known = self._now(), {}
        async for record in self._past.read(self._topic):
            try:
                alert = Alert.model_validate_json(record.value or b"")
            except ValidationError:
                continue
            known[alert.alert_id] = alert
        self._known, self._read_at = known, began
