"""What the demo shows: a live view on a terminal of at least 80 by 24, or plain lines everywhere else."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from judge.text.printable import printable, reason_of
from schemas import Failed, Scored, Unscored
from streams.demo.accounting import Accounts, Course
from streams.demo.incidents import Incidents
from streams.monitoring.statistics.estimators import WeightedSums

Scale = tuple[float, float]
BARS: Final = "▁▂▃▄▅▆▇█"
LABELS: Final = ("app", "model", "prompt_version")
MAX_LABEL_ROWS: Final = 8
FEWEST_VERDICTS: Final = 5
"""Minimum verdicts of a mean in the table by label."""
LINE_SECONDS: Final = 2.0
_ROWS_AROUND: Final = 7  # title, addresses, page, flow, cost, and two rules


@dataclass(slots=True)
class View:
    """What a display shows."""

    accounts: Accounts
    incidents: Incidents
    ranges: Mapping[str, Scale]
    broker: str
    judge: str
    judge_note: str
    page: str = "starting the worker ..."
    seconds: float = 0.0
    """Since the start."""
    trouble: str | None = None
    """Why there are no verdicts at present, with the remedy."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """The data of the worker's status page; empty before its start."""

    @property
    def flow(self) -> str:
        """The counts of all records."""
        accounts, lag = self.accounts, sum(self.status.get("lag_records", {}).values())
        return (
            f"{self.seconds:.0f} s: read {accounts.read}, sampled {accounts.sampled}, "
            f"judged {accounts.results}, lag {lag}, dead letters {accounts.dead_letters}"
        )

    def course(self, metric: str) -> Course:
        """Return a metric's scores."""
        return self.accounts.courses.get(metric) or Course()


def screen(view: View, *, width: int, height: int) -> RenderableType:
    """Lay out the view for a terminal."""
    top = [
        Text.assemble(
            ("judgestream demo", "bold"),
            "  judge ",
            (printable(view.judge), "bold"),
            (f" ({view.judge_note})", "dim"),
        ),
        Text(f"Ctrl-C stops  {view.broker}", style="dim"),
        Text(view.page, style="dim"),
        Text(view.flow),
    ]
    alarms = _alarms(view, width)
    used = _ROWS_AROUND + len(view.ranges) + 1 + len(alarms)
    rows = _by_label(view)[: min(MAX_LABEL_ROWS, max(height - used - 5, 2))]
    used += len(rows) + 1 if rows else 0
    verdicts = [
        _verdict(one, view.ranges, width) for one in islice(view.accounts.recent, max(height - used, 1))
    ]
    if not verdicts and view.trouble is None:
        verdicts = [Text("waiting for the first verdict ...", style="dim")]
    tail = [*verdicts, Text(_cost(view.accounts), style="dim")]
    for line in (*top, *alarms, *tail):
        line.truncate(width, overflow="ellipsis")
    labels = [_labels(rows, view.ranges)] if rows else []
    rule = Rule(style="dim")
    return Group(*top, rule, _metrics(view, width), *alarms, rule, *labels, *tail)


def _metrics(view: View, width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), expand=False, header_style="dim")
    for heading in ("metric", "now", "95% interval", "at first", "over time"):
        is_text = heading in {"metric", "over time"}
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=heading == "over time")
    for name, ends in view.ranges.items():
        course = view.course(name)
        now, first = course.now, course.baseline
        interval = now.interval(lowest=ends[0], highest=ends[1])
        table.add_row(
            Text(name, style="bold"),
            _mean(now, ends),
            Text("" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}", style="dim"),
            Text("...", style="dim") if first is None else _mean(first, ends),
            sparkline(course, ends, max(width - 52, 10)),
        )
    return table


def sparkline(course: Course, ends: Scale, width: int) -> Text:
    """Draw a metric over time, newest at the right, with gaps where nothing was judged."""
    text = Text()
    buckets = course.buckets
    newest = max(buckets, default=0)
    for at in range(max(min(buckets, default=1), newest - width + 1), newest + 1):
        mean = buckets[at].mean if at in buckets else None
        if mean is None:
            text.append(" ")
        else:
            level = round(_share(mean, ends) * (len(BARS) - 1))
            text.append(BARS[min(max(level, 0), len(BARS) - 1)], style=_colour(mean, ends))
    return text


def _alarms(view: View, width: int) -> list[Text]:
    """Return the judge's trouble and the latest incident, or that there is neither."""
    lines = [] if view.trouble is None else _wrapped(" JUDGE ", view.trouble, "bold white on red", width)
    incidents = view.incidents.all
    if not incidents:
        return lines or [Text("no alert", style="green")]
    latest = incidents[-1]
    is_open = latest.ended_at is None
    head, style = (" INCIDENT ", "bold white on red") if is_open else (" OVER ", "bold black on green")
    first, *others = view.incidents.card(latest)
    lines += _wrapped(head, first, style, width)
    return [*lines, *(Text(f"  {line}", style="red" if is_open else "dim") for line in others)]


def _wrapped(head: str, words: str, style: str, width: int) -> list[Text]:
    """Return a marked line, folded into at most two."""
    first, *others = textwrap.wrap(f"{head} {printable(words, 2 * width)}", width, drop_whitespace=False)
    lines = [Text.assemble((head, style), first.removeprefix(head))]
    return lines + ([Text("  " + " ".join(others).strip())] if others else [])


_Row = tuple[str, str, dict[str, WeightedSums]]


def _by_label(view: View) -> list[_Row]:
    """Return the recent means by label value, the worst first."""
    sums: dict[tuple[str, str], dict[str, WeightedSums]] = {}
    for result in (one for one in view.accounts.recent if isinstance(one, Scored)):
        for name in LABELS:
            if value := result.labels.get(name):
                means = sums.setdefault((name, value), {})
                before = means.get(result.metric, WeightedSums())
                means[result.metric] = before.add(result.amount, result.sampling.probability)
    rows = [(*label, means) for label, means in sums.items() if _count(means) >= FEWEST_VERDICTS]
    return sorted(rows, key=lambda row: (min(one.mean or 0.0 for one in row[2].values()), row[:2]))


def _count(means: Mapping[str, WeightedSums]) -> int:
    return max(sums.count for sums in means.values())


def _labels(rows: Sequence[_Row], ranges: Mapping[str, Scale]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("worst first")
    for heading in (*ranges, "verdicts"):
        table.add_column(heading, justify="right")
    for name, value, means in rows:
        table.add_row(
            Text.assemble((f"{printable(name, 16)} ", "dim"), printable(value, 28)),
            *(_mean(means.get(metric), ends) for metric, ends in ranges.items()),
            Text(str(_count(means)), style="dim"),
        )
    return table


def _verdict(result: Scored | Unscored | Failed, ranges: Mapping[str, Scale], width: int) -> Text:
    score, style = Text("-", style="magenta"), "magenta"
    if isinstance(result, Scored):
        score, style = Text(result.shown, _colour(result.amount, ranges.get(result.metric, (0, 5)))), "dim"
    labels = " ".join(printable(result.labels[name], 14) for name in LABELS[:2] if name in result.labels)
    reason = (reason_of(result, max(width, 20)), style)
    return Text.assemble(score, (f" {result.metric:<9} ", "dim"), f"{labels:<24} ", reason)


def _cost(accounts: Accounts) -> str:
    cost = "no price known" if accounts.cost_usd is None else f"${accounts.cost_usd:.4f}"
    spent, cached, out = (accounts.tokens[f"{name}_tokens"] for name in ("input", "cached", "output"))
    return f"tokens in {spent:,} (cached {cached:,}) out {out:,}  {cost}"


def _mean(sums: WeightedSums | None, ends: Scale) -> Text:
    if sums is None or sums.mean is None:
        return Text("-", style="dim")
    return Text(f"{sums.mean:.2f}", style=_colour(sums.mean, ends))


def _share(score: float, ends: Scale) -> float:
    return (score - ends[0]) / (ends[1] - ends[0])


def _colour(score: float, ends: Scale) -> str:
    share = _share(score, ends)
    return "green" if share >= 0.75 else "yellow" if share >= 0.45 else "red"


@contextmanager
def live(console: Console) -> Iterator[Callable[[View], None]]:
    """Draw views on the whole terminal, and restore the terminal at the end."""
    with Live(console=console, screen=True, auto_refresh=False, transient=True) as drawing:

        def draw(view: View) -> None:
            size = console.size
            drawing.update(screen(view, width=size.width, height=size.height), refresh=True)

        yield draw


class PlainDisplay:
    """Writes a line every few seconds, and at once what changes: addresses, trouble, incidents."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._next = LINE_SECONDS
        self._written: dict[str, str | None] = {}

    def __call__(self, view: View) -> None:
        """Write the changes since the last call."""
        accounts = view.accounts
        self._once("broker", f"{view.broker}; judge {printable(view.judge)} ({view.judge_note})")
        if view.status:
            self._once("page", view.page)
        trouble = None if view.trouble is None else f"JUDGE {view.trouble}"
        self._once("trouble", trouble, "JUDGE answers again")
        if accounts.recent and accounts.first_verdict_seconds is not None and "first" not in self._written:
            first = accounts.recent[-1]
            score = first.shown if isinstance(first, Scored) else first.status
            after = f"first verdict after {accounts.first_verdict_seconds:.1f} s"
            self._once("first", f"{after}: {first.metric} {score}: {reason_of(first, 120)}")
        for one in view.incidents.all:
            told = f"incident {one.incident_id}"
            self._once(told, f"ALERT drop, {told}: {view.incidents.card(one)[0]}", replace=False)
            if one.incident_id in view.incidents.reports:
                cause = "; ".join(view.incidents.card(one)[1:])
                self._once(f"cause of {told}", f"  {told}: {cause}", replace=False)
            if one.ended_at is not None:
                self._once(
                    f"end of {told}",
                    f"ALERT recovered, {told}: {view.incidents.headline(one)}",
                    replace=False,
                )
        if view.seconds >= self._next:
            self._next = view.seconds + LINE_SECONDS
            means = ((name, view.course(name).now.mean) for name in view.ranges)
            now = ", ".join(f"{name} {'-' if mean is None else f'{mean:.2f}'}" for name, mean in means)
            failed = sum(isinstance(result, Failed) for result in accounts.recent)
            tail = f"; {failed} of the last {len(accounts.recent)} failed" if failed else ""
            self._write(f"{view.flow}; now {now}{tail}")

    def _once(self, what: str, line: str | None, over: str = "", *, replace: bool = True) -> None:
        """Write a line if it is new or has changed; `over` if it became None."""
        before = self._written.get(what)
        if line == before or (before is not None and not replace):
            return
        self._written[what] = line
        self._write(over if line is None else line)
