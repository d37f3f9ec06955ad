"""The explorer: read-only pages of the store and their JSON, behind the port's access control."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import zip_longest
from typing import Any, Final, TypeVar

from aiohttp import web

from judge.text.printable import printable
from streams.errors import BadFilterError, StoreError, StoreMissingError, TooSlowError
from streams.judging.metrics import build_metrics
from streams.settings.tree import Settings
from streams.store import charts, verdicts
from streams.store.database import Snapshot, read_store
from streams.store.gate import ANSWERS, Verdict, look
from streams.store.query import Filter, parse
from streams.store.verdicts import line_of, verdict_of
from streams.store.views.calibration import calibrations
from streams.store.views.incidents import Incident, find, known_incidents, summary_of
from streams.store.views.labels import Scales
from streams.store.views.report import Report, card, commands, markdown, report_on, values_of
from streams.telemetry.exposition import SeriesGauge
from streams.web.port import add_assets, json_response

PAGE_LINES: Final = 50
MAX_INCIDENTS: Final = 200
MAX_CAUSES: Final = 10
"""Latest incidents whose causes a list names."""
REPORT_SECONDS: Final = 30
"""How long the causes of an open incident stand."""
AT_ONCE: Final = 4
"""Concurrent queries of the store; further ones wait."""
MAX_COMPARED: Final = 20
COMPARED_FOR: Final = timedelta(hours=1)
"""Number of release comparisons with a gauge, and how long one is shown after it was asked for."""
_PAGES: Final = {
    "/explore": "explore.html",
    "/explore/verdict/{key}": "verdict.html",
    "/explore/incidents": "incidents.html",
    "/explore/incident/{key}": "incident.html",
    "/explore/compare": "compare.html",
}
_FILES: Final = ("evidence", "explore", "verdict", "incidents", "incident", "compare")

Answer = Callable[[Snapshot, web.Request], Any]
T = TypeVar("T")


class Explorer:
    def __init__(
        self,
        settings: Settings,
        scales: Scales | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.scales: Scales = build_metrics(settings) if scales is None else scales
        self.now, self._settings = now, settings
        self._ranges = {name: metric.score_range for name, metric in self.scales.items()}
        self._compared: OrderedDict[tuple[str, ...], tuple[datetime, Verdict]] = OrderedDict()
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._reports: dict[str, tuple[Any, Report]] = {}

    def add_to(self, app: web.Application, *, refusal: str | None = None) -> None:
        """Add the pages to an application, or the reason why all requests are refused."""
        if refusal is not None:
            app.router.add_get("/explore{rest:.*}", partial(_refuse, refusal))
            return
        scripts = {f"/explore/{name}.js": f"{name}.js" for name in _FILES}
        add_assets(app, "streams.store.views.assets", _PAGES | scripts)
        answers: dict[str, Answer] = {
            "choices": self._choices,
            "verdicts": self._verdicts,
            "verdict/{key}": self._verdict,
            "charts": self._charts,
            "labels": self._labels,
            "people": self._people,
            "incidents": self._incidents,
            "incident/{key}": self._incident,
            "compare": self._compare,
        }
        for name, answer in answers.items():
            app.router.add_get(f"/explore/api/{name}", partial(self.answer, answer))
        # Flagger posts to its hooks and looks at the status alone; the query says all.
        app.router.add_post("/explore/api/compare", partial(self.answer, self._compare))

    async def answer(self, answer: Answer, request: web.Request) -> web.Response:
        """Answer a request from a snapshot of the store, or say why not."""
        try:
            found = await self.read(lambda snapshot: answer(snapshot, request))
        except (BadFilterError, StoreError) as error:
            status = 503 if isinstance(error, StoreMissingError | TooSlowError) else 500
            return json_response({"error": str(error)}, 400 if isinstance(error, BadFilterError) else status)
        if found is None:
            return json_response({"error": "the store has nothing at this URL"}, 404)
        return json_response(found, 200 if found.get("met", True) else 409)

    async def read(self, read: Callable[[Snapshot], T]) -> T:
        def reading() -> T:
            with read_store(self._settings.store.path) as snapshot:
                return read(snapshot)

        async with self._at_once:
            return await asyncio.to_thread(reading)

    def wanted(self, request: web.Request) -> Filter:
        return parse(request.query, request.query.getall("label", []), self.now())

    def _range(self, snapshot: Snapshot, metric: str) -> tuple[float, float]:
        """Return the scale of a metric; for one not in the settings, the range of its scores."""
        if metric not in self._ranges:
            self._ranges[metric] = charts.score_range(snapshot, metric)
        return self._ranges[metric]

    def _choices(self, snapshot: Snapshot, _: web.Request) -> Any:
        found = charts.choices(snapshot)
        ranges = {metric: self._range(snapshot, metric) for metric in found["metrics"]}
        return found | {"extent": charts.extent(snapshot), "ranges": ranges}

    def _verdicts(self, snapshot: Snapshot, request: web.Request) -> Any:
        order = request.query.get("order", "worst")
        if order not in verdicts.ORDERS:
            raise BadFilterError(f"order must be one of {', '.join(verdicts.ORDERS)}, got {order[:40]!r}")
        skip = request.query.get("skip", "0")
        if not skip.isdecimal() or int(skip) > verdicts.MAX_SKIPPED:
            what = f"skip must be a number up to {verdicts.MAX_SKIPPED}, got {skip[:40]!r}"
            raise BadFilterError(f"{what}; narrow the filter")
        page = verdicts.page(snapshot, self.wanted(request), order=order, limit=PAGE_LINES, skip=int(skip))
        return page | {"rows": [line_of(row) for row in page["rows"]]}

    def _verdict(self, snapshot: Snapshot, request: web.Request) -> Any:
        found = verdicts.one(snapshot, request.match_info["key"])
        if found is None:
            return None
        rows = verdicts.of_event(snapshot, found["event_id"])
        others = [line_of(row) for row in rows if row["result_id"] != found["result_id"]]
        metrics = {found["metric"], *(row["metric"] for row in others)}
        return verdict_of(found, self._settings) | {
            "range": self._range(snapshot, found["metric"]),
            "ranges": {metric: self._range(snapshot, metric) for metric in metrics},
            "others": others,
        }

    def _charts(self, snapshot: Snapshot, request: web.Request) -> Any:
        return charts.charts(snapshot, self.wanted(request), partial(self._range, snapshot))

    def _labels(self, snapshot: Snapshot, request: web.Request) -> Any:
        scale = partial(self._range, snapshot)
        return charts.by_label(snapshot, self.wanted(request), scale, self._settings.store.product_labels)

    def _compare(self, snapshot: Snapshot, request: web.Request) -> Any:
        require = request.query.get("require", "")
        if require not in ("", *ANSWERS):
            raise BadFilterError(f"require must be one of {', '.join(ANSWERS)}, got {require[:40]!r}")
        now, rising = self.now(), rising_metrics(self._settings)
        found = look(nullcontext(snapshot), request.query, ranges=self._ranges, rising=rising, now=now)
        key = (found.metric, found.label, *found.values)
        self._compared[key] = now, found
        self._compared.move_to_end(key)
        if len(self._compared) > MAX_COMPARED:
            self._compared.popitem(last=False)
        return asdict(found) | {"text": found.text(), "met": require in ("", found.answer)}

    def gauges(self) -> Iterator[SeriesGauge]:
        for key, (asked, found) in list(self._compared.items()):
            if self.now() - asked < COMPARED_FOR:
                yield SeriesGauge("answer", key, {"no worse": 1, "worse": -1}.get(found.answer, 0))
                yield SeriesGauge("low", key, found.interval[0])
                yield SeriesGauge("high", key, found.interval[1])

    def _people(self, snapshot: Snapshot, _: web.Request) -> Any:
        found = calibrations(snapshot, self.scales)
        return {"sentences": [f"{one.metric}, {printable(one.judge, 60)}: {one.sentence()}" for one in found]}

    async def lines(self, result_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the lines of a list by result id, of the results that the store has by now."""
        with suppress(StoreError):
            return await self.read(lambda snapshot: verdicts.lines(snapshot, result_ids))
        return {}

    def _incidents(self, snapshot: Snapshot, _: web.Request) -> Any:
        known = known_incidents(snapshot)[:MAX_INCIDENTS]
        reports = [self._report(snapshot, one) for one in known[:MAX_CAUSES]]
        cards = [summary_of(one) | {"card": card(one, report)} for one, report in zip_longest(known, reports)]
        return {"incidents": cards}

    def _report(self, snapshot: Snapshot, incident: Incident) -> Report:
        """Return the report of an incident; an open one changes with its answers."""
        age = None if incident.ended_at else int(self.now().timestamp() / REPORT_SECONDS)
        key = (len(incident.alert_ids), age)
        known = self._reports.get(incident.incident_id)
        if known is None or known[0] != key:
            labels = self._settings.store.product_labels
            report = report_on(snapshot, incident, ranges=self._ranges, product_labels=labels)
            known = self._reports[incident.incident_id] = key, report
        return known[1]

    def _incident(self, snapshot: Snapshot, request: web.Request) -> Any:
        found = find(known_incidents(snapshot), request.match_info["key"], metric=request.query.get("metric"))
        if found is None:
            return None
        report = self._report(snapshot, found)
        values = values_of(found, report)
        for one in values["reports"]:
            for name in ("worst", "examples_before"):
                one[name] = [line_of(row) for row in one[name]]
            one["range"] = self._range(snapshot, one["metric"])
        return values | {
            "markdown": markdown(found, report),
            "commands": commands(found.incident_id),
            "extent": charts.extent(snapshot),
        }


async def _refuse(reason: str, _: web.Request) -> web.Response:
    return web.Response(status=403, text=reason)


def score_ranges(settings: Settings) -> dict[str, tuple[float, float]]:
    return {name: metric.score_range for name, metric in build_metrics(settings).items()}


def rising_metrics(settings: Settings) -> frozenset[str]:
    return frozenset(name for name, metric in settings.metrics.items() if metric.rises)
