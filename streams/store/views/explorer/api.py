"""The explorer's URLs: pages and their JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from streams.errors import BadFilterError, StoreError, StoreMissingError, TooSlowError
from streams.monitoring.statistics.estimators import WeightedSums
from streams.store import sums, verdicts
from streams.store.filters import Filter, parse
from streams.store.reader import Asking, Reader
from streams.store.views.explorer.shown import Links, line_of, verdict_of
from streams.store.views.incidents.grouping import find
from streams.store.views.incidents.report import known_incidents, report_on
from streams.store.views.incidents.telling import markdown, summary_of, values_of
from streams.web.listening import asks_this_machine, json_response
from streams.web.pages import load_assets

PAGE_LINES: Final = 50
MAX_INCIDENTS: Final = 200
AT_ONCE: Final = 4
"""Maximum concurrent queries of the store; further ones wait."""

_PAGES: Final = {
    "/explore": ("explore.html", "text/html"),
    "/explore/verdict/{key}": ("verdict.html", "text/html"),
    "/explore/incidents": ("incidents.html", "text/html"),
    "/explore/incident/{key}": ("incident.html", "text/html"),
}
_FILES: Final = {
    f"/explore/{name}": (name, "text/javascript" if name.endswith(".js") else "text/css")
    for name in (
        "explorer.css",
        "dom.js",
        "charts.js",
        "evidence.js",
        "explore.js",
        "verdict.js",
        "incidents.js",
        "incident.js",
    )
}

Ask = Callable[[Asking, web.Request], Any]


class Explorer:
    """Shows a store, read only.

    Args:
        reader: The store.
        ranges: Lowest and highest score by metric, as far as known.
        links: URL templates of traces and records.
        product_labels: Labels that identify the answering product, for the causes of incidents.
        now: Returns the time, with its offset from UTC.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        ranges: Mapping[str, tuple[float, float]],
        links: Links,
        product_labels: Collection[str] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._reader = reader
        self._ranges = dict(ranges)
        self._links = links
        self._product_labels = tuple(product_labels)
        self._now = now
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._refusal: str | None = None
        self._this_machine_only = False
        self._assets = load_assets("streams.store.views.explorer.assets", {**_PAGES, **_FILES})

    def close(self) -> None:
        """Close the store."""
        self._reader.close()

    def add_to(
        self, app: web.Application, *, refusal: str | None = None, this_machine_only: bool = False
    ) -> None:
        """Add the pages to an application.

        Args:
            app: The application, with access control.
            refusal: Reason to refuse all requests; None: none.
            this_machine_only: Whether to refuse other Host names than this machine's; for ports without a
                password.
        """
        self._refusal = refusal
        self._this_machine_only = this_machine_only
        for path in self._assets:
            app.router.add_get(path, self._asset)
        answers: dict[str, Ask] = {
            "choices": self._choices,
            "verdicts": self._verdicts,
            "verdict/{key}": self._verdict,
            "series": self._series,
            "scores": self._scores,
            "labels": self._labels,
            "cost": self._cost,
            "incidents": self._incidents,
            "incident/{key}": self._incident,
        }
        for name, ask in answers.items():
            app.router.add_get(f"/explore/api/{name}", self._answering(ask))

    def _refused(self, request: web.Request) -> web.Response | None:
        if self._refusal is not None:
            return web.Response(status=403, text=self._refusal)
        if self._this_machine_only and not asks_this_machine(request):
            return web.Response(
                status=421, text="without a password only this machine's host names are accepted\n"
            )
        return None

    async def _asset(self, request: web.Request) -> web.Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        resource = request.match_info.route.resource
        text, kind = self._assets[request.path if resource is None else resource.canonical]
        return web.Response(text=text, content_type=kind, charset="utf-8")

    def _answering(self, ask: Ask) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.Response:
            refused = self._refused(request)
            if refused is not None:
                return refused
            try:
                async with self._at_once:
                    found = await asyncio.to_thread(self._asked, ask, request)
            except BadFilterError as error:
                return json_response({"error": str(error)}, 400)
            except (StoreMissingError, TooSlowError) as error:
                return json_response({"error": str(error)}, 503)
            except StoreError as error:
                return json_response({"error": str(error)}, 500)
            if found is None:
                return json_response({"error": "the store has nothing at this URL"}, 404)
            return json_response(found)

        return answer

    def _asked(self, ask: Ask, request: web.Request) -> Any:
        with self._reader.asking() as asking:
            return ask(asking, request)

    def _filter(self, request: web.Request) -> Filter:
        return parse(request.query, request.query.getall("label", []), self._now())

    def _range(self, asking: Asking, metric: str) -> tuple[float, float]:
        """Return the scale of a metric; for one not in the settings, the range of its scores."""
        known = self._ranges.get(metric)
        if known is None:
            seen = sums.distribution(asking, Filter(metric=metric)).get(metric, {}).get("scores") or {0: 0}
            known = self._ranges[metric] = (min(0, *seen, 0), max(*seen, 1, 1))
        return known

    def _choices(self, asking: Asking, _: web.Request) -> Any:
        found = dict(sums.choices(asking))
        return found | {
            "extent": sums.extent(asking),
            "ranges": {metric: self._range(asking, metric) for metric in found["metrics"]},
        }

    def _verdicts(self, asking: Asking, request: web.Request) -> Any:
        order = request.query.get("order", "worst")
        if order not in verdicts.ORDERS:
            raise BadFilterError(f"order must be one of {', '.join(verdicts.ORDERS)}, got {order[:40]!r}")
        skip = request.query.get("skip", "0")
        if not skip.isdecimal() or int(skip) > verdicts.MAX_SKIPPED:
            raise BadFilterError(
                f"skip must be a number up to {verdicts.MAX_SKIPPED}, got {skip[:40]!r}; narrow the filter"
            )
        page = verdicts.page(asking, self._filter(request), order=order, limit=PAGE_LINES, skip=int(skip))
        return {"count": page.count, "more": page.more, "rows": [line_of(row) for row in page.rows]}

    def _verdict(self, asking: Asking, request: web.Request) -> Any:
        found = verdicts.one(asking, request.match_info["key"])
        if found is None:
            return None
        rows = verdicts.of_event(asking, found["event_id"])
        others = [line_of(row) for row in rows if row["result_id"] != found["result_id"]]
        metrics = {found["metric"], *(one["metric"] for one in others)}
        return verdict_of(found, self._links) | {
            "range": self._range(asking, found["metric"]),
            "ranges": {metric: self._range(asking, metric) for metric in metrics},
            "others": others,
        }

    def _series(self, asking: Asking, request: web.Request) -> Any:
        wanted = self._filter(request)
        ends = sums.extent(asking)
        if ends is None:
            return {"since": None, "until": None, "step": None, "lines": []}
        since = ends[0] if wanted.since is None else wanted.since
        until = ends[1] + 1 if wanted.until is None else min(wanted.until, max(ends[1] + 1, since + 1))
        step = sums.step_of(since, until)
        named = sums.evaluators(asking)
        lines: dict[tuple[str, int], list[Any]] = {}
        for point in sums.series(asking, wanted, since=since, until=until, step=step):
            lines.setdefault((point.metric, point.evaluator), []).append(
                [point.at, *self._estimate(asking, point.metric, point.sums)]
            )
        return {
            "since": since,
            "until": until,
            "step": step,
            "lines": [
                {
                    "metric": metric,
                    "fingerprint": named[evaluator][0],
                    "model": named[evaluator][1],
                    "range": self._range(asking, metric),
                    "points": points,
                }
                for (metric, evaluator), points in sorted(lines.items())
            ],
        }

    def _estimate(self, asking: Asking, metric: str, sums_: WeightedSums) -> tuple[Any, ...]:
        """Return mean, ends of its interval, and number of scores."""
        lowest, highest = self._range(asking, metric)
        ends = sums_.interval(lowest=lowest, highest=highest)
        if sums_.mean is None or ends is None:
            return None, None, None, sums_.count
        return round(sums_.mean, 4), round(ends[0], 4), round(ends[1], 4), sums_.count

    def _scores(self, asking: Asking, request: web.Request) -> Any:
        return {
            metric: one | {"range": self._range(asking, metric)}
            for metric, one in sums.distribution(asking, self._filter(request)).items()
        }

    def _labels(self, asking: Asking, request: web.Request) -> Any:
        rows = [
            [metric, name, value, *self._estimate(asking, metric, part)]
            for (metric, name, value), part in sums.by_label(asking, self._filter(request)).items()
        ]
        return {"rows": sorted(rows, key=lambda row: (row[0], row[1], row[3] is None, row[3] or 0, row[2]))}

    def _incidents(self, asking: Asking, _: web.Request) -> Any:
        return {"incidents": [summary_of(one) for one in known_incidents(asking)[:MAX_INCIDENTS]]}

    def _incident(self, asking: Asking, request: web.Request) -> Any:
        known = known_incidents(asking)
        found = find(known, request.match_info["key"], metric=request.query.get("metric"))
        if found is None:
            return None
        report = report_on(asking, found, ranges=self._ranges, product_labels=self._product_labels)
        values = values_of(report)
        for one in values["reports"]:
            for name in ("worst", "examples_before"):
                one[name] = [line_of(row) for row in one[name]]
            one["range"] = self._range(asking, one["metric"])
        return values | {"markdown": markdown(report), "extent": sums.extent(asking)}

    def _cost(self, asking: Asking, request: web.Request) -> Any:
        return {"days": sums.daily_cost(asking, self._filter(request))}
