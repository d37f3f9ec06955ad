"""The demo's summary, as JSON and as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from judge.text.printable import printable
from streams.demo.accounting import Balance
from streams.demo.board import Board
from streams.monitoring.statistics.estimators import WeightedSums


def summary(
    board: Board,
    balance: Balance,
    *,
    half_way: float,
    ranges: Mapping[str, tuple[float, float]],
    judge: str,
    seconds: float,
    incidents: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the summary as JSON values.

    Args:
        board: The numbers of the view.
        balance: The outcomes of events and tasks.
        half_way: First position that counts as after.
        ranges: Lowest and highest score, by metric.
        judge: The judge's name.
        seconds: Duration of the demo.
        incidents: The incidents in the store.
    """
    accounts = board.accounts
    means = accounts.means(half_way)
    sides = {
        metric: {"before": means[metric].before, "after": means[metric].after}
        if metric in means
        else {"before": WeightedSums(), "after": WeightedSums()}
        for metric in ranges
    }
    return {
        "events": {
            "read": balance.read,
            "undecodable": balance.undecodable,
            "unroutable": balance.unroutable,
            "skipped": balance.skipped,
            "sampled": balance.sampled,
        },
        "results": {"scored": balance.scored, "unscored": balance.unscored, "failed": balance.failed},
        "dead_letters": accounts.dead_letters,
        "identity_holds": balance.holds,
        "means": {
            metric: {side: _rounded(sums.mean) for side, sums in pair.items()}
            for metric, pair in sides.items()
        },
        "alerts": accounts.drops,
        "incidents": [dict(one) for one in incidents],
        "tokens": board.input_tokens + board.output_tokens,
        "cost_usd": board.cost_usd,
        "seconds": round(seconds, 3),
        "tasks": {
            "total": balance.tasks,
            "dead_letters": balance.task_dead_letters,
            "in_flight": balance.in_flight,
        },
        "usage": {
            "input_tokens": board.input_tokens,
            "cached_tokens": board.cached_tokens,
            "output_tokens": board.output_tokens,
        },
        "estimates": {
            metric: {side: _estimate(sums, ranges[metric]) for side, sums in pair.items()}
            for metric, pair in sides.items()
        },
        "course": {
            metric: {
                "at_first": _estimate(one.baseline or WeightedSums(), ranges[metric]),
                "at_the_end": _estimate(one.now, ranges[metric]),
            }
            for metric, one in board.series(seconds).items()
        },
        "first_verdict_seconds": _rounded(board.first_verdict_seconds),
        "judge": judge,
    }


def as_tables(values: Mapping[str, Any], *, complete: bool) -> RenderableType:
    """Return a summary as tables for a terminal.

    Args:
        values: The summary.
        complete: Whether it ran to its end, with a first and a second half; False after Ctrl-C.
    """
    flow = Table(box=None, show_header=False)
    flow.add_column(style="dim")
    flow.add_column(justify="right")
    for name, count in values["events"].items():
        flow.add_row(name, str(count))
    for name, count in values["results"].items():
        flow.add_row(f"results {name}", str(count))
    flow.add_row("dead letters", str(values["dead_letters"]))
    cost = "no price known" if values["cost_usd"] is None else f"${values['cost_usd']:.4f}"
    if values["identity_holds"]:
        verdict = Text("accounted for: every event and every task has exactly one outcome", style="green")
    elif not complete:
        verdict = Text(f"stopped with {values['tasks']['in_flight']} tasks in flight")
    else:
        verdict = Text("NOT accounted for: see the numbers above", style="bold red")
    means = (
        (
            Text("means of the first and the second half, weighted by 1 / probability"),
            _means(values["estimates"], ("before", "after")),
        )
        if complete
        else (
            Text("means of the first and of the latest verdicts, weighted by 1 / probability"),
            _means(values["course"], ("at_first", "at_the_end")),
        )
    )
    return Group(
        Text("outcomes of the events"),
        flow,
        Text(),
        *means,
        Text(),
        *(
            Text(f"incident {one['incident_id']}: {one['headline']} ({one['alerts']} alerts)")
            for one in values["incidents"]
        ),
        Text(
            f"{values['alerts']} drop alerts, {values['tokens']:,} tokens, {cost}, "
            f"{values['seconds']:.1f} s, "
            f"judged by {printable(values['judge'])}"
        ),
        verdict,
    )


def _means(estimates: Mapping[str, Mapping[str, Any]], sides: tuple[str, str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("metric")
    for side in sides:
        table.add_column(side.replace("_", " "), justify="right")
        table.add_column("95% interval", justify="right", style="dim")
    for metric, of in estimates.items():
        cells: list[str] = []
        for side in sides:
            one = of[side]
            cells += (
                ["-", ""] if one is None else [f"{one['mean']:.2f}", f"{one['low']:.2f} to {one['high']:.2f}"]
            )
        table.add_row(metric, *cells)
    return table


def _estimate(sums: WeightedSums, scale: tuple[float, float]) -> dict[str, float | int] | None:
    ends = sums.interval(lowest=scale[0], highest=scale[1])
    if sums.mean is None or ends is None:
        return None
    return {
        "mean": round(sums.mean, 4),
        "low": round(ends[0], 4),
        "high": round(ends[1], 4),
        "count": sums.count,
        "effective_count": round(sums.effective_count, 1),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
