"""What the demo shows: the worker's status, live on a terminal or as plain lines, and its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from judge.text.printable import printable, reason_of
from schemas import Scored
from streams.demo.accounting import Accounts, Incidents
from streams.monitoring.statistics.estimators import WeightedSums

Scale = tuple[float, float]
BARS: Final = "▁▂▃▄▅▆▇█"
LINE_SECONDS: Final = 2.0
_EVENTS: Final = ("read", "undecodable", "unroutable", "skipped", "sampled")


@dataclass(slots=True)
class View:
    accounts: Accounts
    incidents: Incidents
    ranges: Mapping[str, Scale]
    broker: str
    judge: str
    judge_note: str
    page: str = "starting the worker ..."
    seconds: float = 0.0
    trouble: str | None = None
    """Why there are no verdicts at present, with the remedy."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """The data of the worker's status page; empty before its start."""

    @property
    def lag(self) -> int:
        return sum(self.status.get("lag_records", {}).values())

    @property
    def flow(self) -> str:
        counts = self.accounts.balance(0)
        return (
            f"{self.seconds:.0f} s: read {counts['read']}, sampled {counts['sampled']}, "
            f"judged {len(self.accounts.results)}, lag {self.lag}, dead letters {self.accounts.dead_letters}"
        )

    def series(self, metric: str) -> Mapping[str, Any]:
        every = self.status.get("series", ())
        whole = (one for one in every if not one["labels"] and one["metric"] == metric)
        return next(whole, {"metric": metric})


def screen(view: View, width: int, height: int) -> RenderableType:
    """Lay out the view for a terminal; what is below its last row is not shown."""
    judge, note = (printable(view.judge), "bold"), (f" ({view.judge_note})", "dim")
    top = [
        Text.assemble(("judgestream demo", "bold"), "  judge ", judge, note),
        Text(f"Ctrl-C stops  {view.broker}", style="dim"),
        Text(view.page, style="dim"),
        Text(view.flow),
        Text(view.accounts.spent.line(), style="dim"),
    ]
    shown = view.status.get("verdicts", ())
    verdicts = [_verdict(one, view.ranges.get(one["metric"], (0, 5))) for one in shown]
    if not verdicts and view.trouble is None:
        verdicts = [Text("waiting for the first verdict ...", style="dim")]
    for line in (*top, *verdicts):
        line.truncate(width, overflow="ellipsis")
    rule, table = Rule(style="dim"), _table(view, width, most_parts=height // 6)
    return Group(*top, rule, table, *_alarms(view, 2 * width), rule, *verdicts)


def _table(view: View, width: int, most_parts: int) -> Table:
    """Draw the series of the whole traffic, and of its worst parts with at least 5 verdicts."""
    parts = [
        part
        for part in view.status.get("series", ())
        if part["labels"] and part["recent"] is not None and part["scored"] >= 5
    ]
    parts.sort(key=lambda part: (_share(part["recent"], view.ranges[part["metric"]]), str(part["labels"])))
    rows = [view.series(metric) for metric in view.ranges] + parts[:most_parts]
    table = Table(box=None, padding=(0, 2, 0, 0), expand=False, header_style="dim")
    for heading in ("answers", "now", "95% interval", "at first", "over time"):
        is_text = heading in {"answers", "over time"}
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=True)
    lines = view.status.get("history", {}).get("lines", {})
    names = [_name(row) for row in rows]
    room = max(width - 32 - max(map(len, names), default=0), 10)
    for name, row in zip(names, rows, strict=True):
        ends, low, high = view.ranges[row["metric"]], row.get("recent_low"), row.get("recent_high")
        means = [point and point[0] for point in lines.get(row.get("line"), ())]
        table.add_row(
            name,
            _mean(row.get("recent"), ends),
            Text("" if low is None else f"{low:.2f} to {high:.2f}", style="dim"),
            _mean(row.get("baseline"), ends, "..."),
            Text() if row.get("labels") else sparkline(means, ends, room),
        )
    return table


def _name(row: Mapping[str, Any]) -> Text:
    labels: Mapping[str, str] = row.get("labels", {})
    parts = "".join(f" {printable(name, 12)}={printable(value, 16)}" for name, value in labels.items())
    return Text.assemble((row["metric"], "dim" if parts else "bold"), parts)


def sparkline(means: Sequence[float | None], ends: Scale, width: int) -> Text:
    """Draw means over time, the newest at the right, with gaps where nothing was judged."""
    text = Text()
    for mean in means[-width:]:
        if mean is None:
            text.append(" ")
        else:
            level = round(_share(mean, ends) * (len(BARS) - 1))
            text.append(BARS[min(max(level, 0), len(BARS) - 1)], style=_colour(mean, ends))
    return text


def _alarms(view: View, most_chars: int) -> list[Text]:
    incidents, red = view.incidents.all, "bold white on red"
    lines = []
    if view.trouble is not None:
        lines = [Text.assemble((" JUDGE ", red), " ", printable(view.trouble, most_chars - 10))]
    if incidents:
        is_over = incidents[-1].ended_at is not None
        head = (" OVER ", "bold black on green") if is_over else (" INCIDENT ", red)
        first, *others = view.incidents.card(incidents[-1])
        lines.append(Text.assemble(head, " ", printable(first, most_chars - 12)))
        lines += [Text(f"  {line}", style="dim" if is_over else "red") for line in others]
    return lines or [Text("no alert", style="green")]


def _verdict(verdict: Mapping[str, Any], ends: Scale) -> Text:
    score = Text("-", style="magenta")
    if verdict["score"] is not None:
        score = Text(f"{verdict['score']:g}", _colour(verdict["score"], ends))
    labels = " ".join(printable(verdict["labels"].get(name, ""), 14) for name in ("app", "model")).strip()
    reason = (printable(verdict["reason"], 300), "magenta" if verdict["score"] is None else "dim")
    return Text.assemble(score, (f" {verdict['metric']:<9} ", "dim"), f"{labels:<24} ", reason)


def _mean(mean: float | None, ends: Scale, unknown: str = "-") -> Text:
    return Text(unknown, style="dim") if mean is None else Text(f"{mean:.2f}", style=_colour(mean, ends))


def _share(score: float, ends: Scale) -> float:
    return (score - ends[0]) / (ends[1] - ends[0])


def _colour(score: float, ends: Scale) -> str:
    share = _share(score, ends)
    return "green" if share >= 0.75 else "yellow" if share >= 0.45 else "red"


@contextmanager
def live(console: Console) -> Iterator[Callable[[View], None]]:
    with Live(console=console, screen=True, auto_refresh=False, transient=True) as drawing:
        yield lambda view: drawing.update(screen(view, *console.size), refresh=True)


class PlainDisplay:
    """Writes a line every few seconds, and at once what changes: addresses, trouble, incidents."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._next = LINE_SECONDS
        self._written: dict[str, str | None] = {}

    def __call__(self, view: View) -> None:
        self._once("broker", f"{view.broker}; judge {printable(view.judge)} ({view.judge_note})")
        if view.status:
            self._once("page", view.page)
        trouble = None if view.trouble is None else f"JUDGE {view.trouble}"
        self._once("trouble", trouble, "JUDGE answers again", replace=True)
        accounts, verdicts = view.accounts, view.status.get("verdicts", ())
        if accounts.results and "first" not in self._written:
            first, after = next(iter(accounts.results.values())), accounts.first_verdict_seconds or 0.0
            score = first.shown if isinstance(first, Scored) else first.status
            reason = reason_of(first, 120)
            self._once("first", f"first verdict after {after:.1f} s: {first.metric} {score}: {reason}")
        for incident in view.incidents.all:
            name, (what, *others) = f"incident {incident.incident_id}", view.incidents.card(incident)
            self._once(name, f"ALERT drop, {name}: {what}")
            if incident.incident_id in view.incidents.reports:
                self._once(f"cause of {name}", f"  {name}: {'; '.join(others)}")
            if incident.ended_at is not None:
                self._once(f"end of {name}", f"ALERT recovered, {name}: {view.incidents.headline(incident)}")
        if view.seconds >= self._next:
            self._next = view.seconds + LINE_SECONDS
            means = ((name, view.series(name).get("recent")) for name in view.ranges)
            now = ", ".join(f"{name} {'-' if mean is None else f'{mean:.2f}'}" for name, mean in means)
            failed = sum(verdict["status"] == "failed" for verdict in verdicts)
            tail = f"; {failed} of the last {len(verdicts)} failed" if failed else ""
            self._write(f"{view.flow}; now {now}{tail}")

    def _once(self, what: str, line: str | None, over: str = "", *, replace: bool = False) -> None:
        """Write a line that is new or, if it is replaced, has changed; `over` if it became None."""
        before = self._written.get(what)
        if line == before or (before is not None and not replace):
            return
        self._written[what] = line
        self._write(over if line is None else line)


def summary(view: View, balance: Mapping[str, int], half_way: float) -> dict[str, Any]:
    """Return the summary as JSON values; `half_way` is the first position that counts as after."""
    accounts, incidents = view.accounts, view.incidents
    tasks = {"total": balance["tasks"], "dead_letters": balance["task_dead_letters"]}
    halves: dict[str, dict[str, Any]] = {}
    for metric, ends in view.ranges.items():
        before, after = accounts.halves(metric, half_way)
        halves[metric] = {"before": _estimate(before, ends), "after": _estimate(after, ends)}
    first = accounts.first_verdict_seconds
    return {
        "events": {name: balance[name] for name in _EVENTS},
        "results": {name: balance[name] for name in ("scored", "unscored", "failed")},
        "dead_letters": accounts.dead_letters,
        "identity_holds": balance["lost"] == 0 and balance["in_flight"] == 0,
        "means": {
            metric: {side: None if one is None else one["mean"] for side, one in sides.items()}
            for metric, sides in halves.items()
        },
        "alerts": sum(alert.kind == "drop" for alert in accounts.alerts.values()),
        "incidents": [
            {"incident_id": one.incident_id, "alerts": len(one.drops), "headline": incidents.headline(one)}
            for one in incidents.all
        ],
        **accounts.spent.as_json(),
        "seconds": round(view.seconds, 3),
        "tasks": tasks | {"in_flight": balance["in_flight"]},
        "estimates": halves,
        "first_verdict_seconds": None if first is None else round(first, 4),
        "judge": view.judge,
    }


def _estimate(sums: WeightedSums, scale: Scale) -> dict[str, float | int] | None:
    ends = sums.interval(lowest=scale[0], highest=scale[1])
    if sums.mean is None or ends is None:
        return None
    means = {"mean": round(sums.mean, 4), "low": round(ends[0], 4), "high": round(ends[1], 4)}
    return {**means, "count": sums.count, "effective_count": round(sums.effective_count, 1)}


def summary_lines(values: Mapping[str, Any], *, complete: bool) -> Iterator[str]:
    """Yield a summary as text; `complete` if it ran to its end, with a first and a second half."""
    yield "outcomes of the events"
    results = {f"results {name}": count for name, count in values["results"].items()}
    for name, count in {**values["events"], **results, "dead letters": values["dead_letters"]}.items():
        yield f"  {name:<17} {count:>7,}"
    if complete:
        yield "means of the first and the second half, weighted by 1 / probability, with 95% interval"
        for metric, sides in values["estimates"].items():
            yield f"  {metric:<17} {_shown(sides['before'])}   {_shown(sides['after'])}"
    for one in values["incidents"]:
        yield f"incident {one['incident_id']}: {one['headline']} ({one['alerts']} alerts)"
    cost = "no price known" if values["cost_usd"] is None else f"${values['cost_usd']:.4f}"
    yield (
        f"{values['alerts']} drop alerts, {values['tokens']:,} tokens, {cost}, "
        f"{values['seconds']:.1f} s, judged by {printable(values['judge'])}"
    )
    if values["identity_holds"]:
        yield "accounted for: every event and every task has exactly one outcome"
    elif complete:
        yield "NOT accounted for: see the numbers above"
    else:
        limit = "" if values.get("limit") is None else f" at its limit of {values['limit']}"
        yield f"stopped{limit} with {values['tasks']['in_flight']} tasks in flight"


def _shown(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None:
        return f"{'-':>4} {'':<14}"
    return "{mean:.2f} ({low:.2f} to {high:.2f})".format_map(estimate)
