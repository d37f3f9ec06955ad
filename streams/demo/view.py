"""The live view: the board on a terminal of at least 80 by 24."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from judge.text.printable import printable, reason_of
from schemas import Alert, Failed, Scored, Unscored
from streams.demo.board import Board, LabelRow, Series
from streams.monitoring.statistics.estimators import WeightedSums

BARS = "▁▂▃▄▅▆▇█"
SHOWN_ALERTS = 3
RECOVERED_SECONDS = 60.0
"""How long a recovery is shown."""
MAX_LABEL_ROWS = 8
FEWEST_LABEL_SAMPLES = 5
"""Minimum verdicts of a mean in the table."""
_ROWS_AROUND = 7  # title, addresses, page, flow, cost, and two rules


@dataclass(frozen=True, slots=True)
class Heading:
    """The constant texts of the view."""

    broker: str
    judge: str
    judge_note: str
    page: str
    ranges: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Flow:
    """The changing numbers of a frame."""

    seconds: float
    read_a_second: float
    judged_a_second: float
    lag: int
    sampled: int


class LiveView:
    """Renders the board for each frame.

    Args:
        board: The numbers.
        heading: The constant texts.
    """

    def __init__(self, board: Board, heading: Heading) -> None:
        self._board = board
        self._heading = heading
        self.flow = Flow(0.0, 0.0, 0.0, 0, 0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay out the parts for the terminal's size."""
        width, height = options.max_width, options.height or options.size.height
        metrics = self._metrics(width)
        alerts = self._alerts(width)
        used = _ROWS_AROUND + len(self._heading.ranges) + 1 + len(alerts)
        rows = [row for row in self._board.by_label() if _samples(row) >= FEWEST_LABEL_SAMPLES]
        labels = rows[: min(MAX_LABEL_ROWS, max(height - used - 5, 2))]
        if labels:
            used += len(labels) + 1
        verdicts = self._board.last_verdicts(max(height - used, 1))
        yield Group(
            *self._title(width),
            Rule(style="dim"),
            metrics,
            *alerts,
            Rule(style="dim"),
            *([self._labels(labels)] if labels else []),
            *(self._verdict(result, width) for result in verdicts),
            *([Text("waiting for the first verdict ...", style="dim")] if not verdicts else []),
            self._cost(),
        )

    def _title(self, width: int) -> Sequence[RenderableType]:
        heading, flow, accounts = self._heading, self.flow, self._board.accounts
        lines = (
            Text.assemble(
                ("judgestream demo", "bold"),
                "  judge ",
                (printable(heading.judge), "bold"),
                (f" {heading.judge_note}", "dim"),
            ),
            Text(f"Ctrl-C stops  {heading.broker}", style="dim"),
            Text(heading.page, style="dim"),
            Text.assemble(
                (f"{flow.seconds:.0f} s", "dim"),
                "  read ",
                (f"{accounts.read}", "bold"),
                f" ({flow.read_a_second:.0f}/s)  sampled ",
                (f"{flow.sampled}", "bold"),
                "  judged ",
                (f"{self._board.results}", "bold"),
                f" ({flow.judged_a_second:.0f}/s)  lag {flow.lag}  dead letters {accounts.dead_letters}",
            ),
        )
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines

    def _metrics(self, width: int) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), expand=False, header_style="dim")
        table.add_column("metric")
        table.add_column("now", justify="right")
        table.add_column("95% interval", justify="right")
        table.add_column("at first", justify="right")
        table.add_column("over time", no_wrap=True)
        room = max(width - 52, 10)
        for name, series in self._board.series(self.flow.seconds).items():
            lowest, highest = self._heading.ranges.get(name, (0, 5))
            table.add_row(
                Text(name, style="bold"),
                _mean(series.now, lowest, highest),
                _interval(series.now, lowest, highest),
                _mean(series.baseline, lowest, highest) if series.baseline else Text("...", style="dim"),
                sparkline(series, lowest, highest, room),
            )
        return table

    def _alerts(self, width: int) -> list[Text]:
        alerts = standing_alerts(self._board.alerts)
        if not alerts:
            return [Text("no alert", style="green")]
        shown = [_alert_line(alert, width) for alert in alerts[:SHOWN_ALERTS]]
        if len(alerts) > SHOWN_ALERTS:
            more = "; ".join(
                f"{alert.metric} {' '.join(printable(value, 24) for value in alert.labels.values())}"
                for alert in alerts[SHOWN_ALERTS:]
            )
            line = Text(f" and {len(alerts) - SHOWN_ALERTS} more: {more}", style="red")
            line.truncate(width, overflow="ellipsis")
            shown.append(line)
        return shown

    def _labels(self, rows: Sequence[LabelRow]) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("worst first")
        for metric in self._heading.ranges:
            table.add_column(metric, justify="right")
        table.add_column("verdicts", justify="right")
        for row in rows:
            means = [
                _mean(row.sums.get(metric), lowest, highest)
                for metric, (lowest, highest) in self._heading.ranges.items()
            ]
            table.add_row(
                Text.assemble((f"{printable(row.name, 16)} ", "dim"), printable(row.value, 28)),
                *means,
                Text(str(_samples(row)), style="dim"),
            )
        return table

    def _verdict(self, result: Scored | Unscored | Failed, width: int) -> Text:
        lowest, highest = self._heading.ranges.get(result.metric, (0, 5))
        if isinstance(result, Scored):
            score = Text(result.shown, style=_colour(result.amount, lowest, highest))
        else:
            score = Text("-", style="magenta")
        labels = " ".join(
            printable(result.labels[name], 14) for name in ("app", "model") if name in result.labels
        )
        line = Text.assemble(
            score,
            (f" {result.metric:<9} ", "dim"),
            f"{labels:<24} ",
            (reason_of(result, max(width, 20)), "dim" if isinstance(result, Scored) else "magenta"),
        )
        line.truncate(width, overflow="ellipsis")
        return line

    def _cost(self) -> Text:
        board = self._board
        cost = "no price known" if board.cost_usd is None else f"${board.cost_usd:.4f}"
        return Text(
            (
                f"tokens in {board.input_tokens:,} (cached {board.cached_tokens:,}) out "
                f"{board.output_tokens:,}  {cost}"
            ),
            style="dim",
        )


def sparkline(series: Series, lowest: float, highest: float, width: int) -> Text:
    """Draw a metric over time, newest at the right, with gaps where nothing was judged.

    Args:
        series: The metric.
        lowest: The score of the lowest bar.
        highest: The score of the highest bar.
        width: Maximum characters; at least 1.
    """
    text = Text()
    for mean in list(series.spark)[-width:]:
        if mean is None:
            text.append(" ")
            continue
        share = (mean - lowest) / (highest - lowest)
        level = min(max(round(share * (len(BARS) - 1)), 0), len(BARS) - 1)
        text.append(BARS[level], style=_colour(mean, lowest, highest))
    return text


def _mean(sums: WeightedSums | None, lowest: float, highest: float) -> Text:
    if sums is None or sums.mean is None:
        return Text("-", style="dim")
    return Text(f"{sums.mean:.2f}", style=_colour(sums.mean, lowest, highest))


def _interval(sums: WeightedSums, lowest: float, highest: float) -> Text:
    ends = sums.interval(lowest=lowest, highest=highest)
    return Text("" if ends is None else f"{ends[0]:.2f} to {ends[1]:.2f}", style="dim")


def _colour(score: float, lowest: float, highest: float) -> str:
    share = (score - lowest) / (highest - lowest)
    return "green" if share >= 0.75 else "yellow" if share >= 0.45 else "red"


def standing_alerts(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the latest alert of each series, all traffic before its parts.

    Recoveries much older than the newest alert or recovery are omitted.

    Args:
        alerts: All alerts, oldest first.
    """
    last: dict[tuple[str, tuple[tuple[str, str], ...]], Alert] = {}
    for alert in alerts:
        last[alert.metric, tuple(sorted(alert.labels.items()))] = alert
    newest = max((alert.raised_at for alert in last.values()), default=None)
    standing = [
        alert
        for alert in last.values()
        if alert.kind == "drop"
        or newest is None
        or (newest - alert.raised_at).total_seconds() < RECOVERED_SECONDS
    ]
    standing.sort(key=lambda alert: alert.raised_at, reverse=True)
    return sorted(standing, key=lambda alert: (bool(alert.labels), alert.kind != "drop"))


def _alert_line(alert: Alert, width: int) -> Text:
    style = "bold white on red" if alert.kind == "drop" else "bold black on green"
    line = Text.assemble(
        (f" {'DROP' if alert.kind == 'drop' else 'RECOVERED'} ", style),
        (f" {alert.raised_at.astimezone():%H:%M:%S} ", "dim"),
        printable(alert.summary, 400),
    )
    line.truncate(width, overflow="ellipsis")
    return line


def _samples(row: LabelRow) -> int:
    return max((sums.count for sums in row.sums.values()), default=0)
