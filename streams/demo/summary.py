"""The demo's summary, as JSON and as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from judge.text.printable import printable
from streams.demo.accounting import Accounts, holds
from streams.monitoring.statistics.estimators import WeightedSums


def summary(
    accounts: Accounts,
    balance: Mapping[str, int],
    *,
    half_way: float,
    ranges: Mapping[str, tuple[float, float]],
    judge: str,
    seconds: float,
    incidents: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the summary as JSON values; `half_way` is the first position that counts as after."""
    halves = {metric: accounts.means(metric, half_way) for metric in ranges}
    return {
        "events": {
            name: balance[name] for name in ("read", "undecodable", "unroutable", "skipped", "sampled")
        },
        "results": {name: balance[name] for name in ("scored", "unscored", "failed")},
        "dead_letters": accounts.dead_letters,
        "identity_holds": holds(balance),
        "means": {
            metric: {"before": _rounded(before.mean), "after": _rounded(after.mean)}
            for metric, (before, after) in halves.items()
        },
        "alerts": sum(alert.kind == "drop" for alert in accounts.alerts),
        "incidents": [dict(incident) for incident in incidents],
        "tokens": accounts.spent_tokens,
        "cost_usd": accounts.cost_usd,
        "seconds": round(seconds, 3),
        "tasks": {
            "total": balance["tasks"],
            "dead_letters": balance["task_dead_letters"],
            "in_flight": balance["in_flight"],
        },
        "usage": {name: accounts.tokens[name] for name in ("input_tokens", "cached_tokens", "output_tokens")},
        "estimates": {
            metric: _estimates(("before", "after"), sides, ranges[metric]) for metric, sides in halves.items()
        },
        "course": {
            metric: _estimates(("at_first", "at_the_end"), accounts.course(metric), ranges[metric])
            for metric in ranges
        },
        "first_verdict_seconds": _rounded(accounts.first_verdict_seconds),
        "judge": judge,
    }


def as_tables(values: Mapping[str, Any], *, complete: bool) -> RenderableType:
    """Return a summary as tables; `complete` if it ran to its end, with a first and a second half."""
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
        limit = "" if values.get("limit") is None else f" at its limit of {values['limit']}"
        verdict = Text(f"stopped{limit} with {values['tasks']['in_flight']} tasks in flight")
    else:
        verdict = Text("NOT accounted for: see the numbers above", style="bold red")
    what, means, sides = (
        ("the first and the second half", values["estimates"], ("before", "after"))
        if complete
        else ("the first and of the latest verdicts", values["course"], ("at_first", "at_the_end"))
    )
    return Group(
        Text("outcomes of the events"),
        flow,
        Text(),
        Text(f"means of {what}, weighted by 1 / probability"),
        _means(means, sides),
        Text(),
        *(
            Text(f"incident {incident['incident_id']}: {incident['headline']} ({incident['alerts']} alerts)")
            for incident in values["incidents"]
        ),
        Text(
            f"{values['alerts']} drop alerts, {values['tokens']:,} tokens, {cost}, "
            f"{values['seconds']:.1f} s, judged by {printable(values['judge'])}"
        ),
        verdict,
    )


def _means(estimates: Mapping[str, Mapping[str, Any]], sides: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("metric")
    for side in sides:
        table.add_column(side.replace("_", " "), justify="right")
        table.add_column("95% interval", justify="right", style="dim")
    for metric, of in estimates.items():
        cells: list[str] = []
        for estimate in (of[side] for side in sides):
            cells += (
                ["-", ""]
                if estimate is None
                else [f"{estimate['mean']:.2f}", f"{estimate['low']:.2f} to {estimate['high']:.2f}"]
            )
        table.add_row(metric, *cells)
    return table


def _estimates(
    names: tuple[str, str], sides: tuple[WeightedSums, WeightedSums], scale: tuple[float, float]
) -> dict[str, Any]:
    return {name: _estimate(sums, scale) for name, sums in zip(names, sides, strict=True)}


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
