"""The suite's report: a row for each fault, on the terminal and in a file shared by several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chaos.checker import Report

HEAD: Final = (
    *("fault", "events", "results", "set aside", "duplicates"),
    *("lost", "invented", "problems", "log lines", "seconds"),
)


Row = tuple[str, ...]


def row_of(fault: str, report: Report | None, log_lines: int, seconds: float) -> Row:
    """Without a report the fault broke off."""
    if report is None:
        return (fault, "broke off", *[""] * (len(HEAD) - 3), str(round(seconds)))
    aside = report.dead_letters + report.outcomes["undecodable"] + report.outcomes["unroutable"]
    numbers = (
        *(report.read, report.results, aside, report.duplicates, report.lost, report.invented),
        *(len(report.problems), log_lines, round(seconds)),
    )
    return (fault, *(f"{number:,}" for number in numbers))


def aligned(rows: Sequence[Row]) -> list[str]:
    table = [HEAD, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table]


def keep(file: Path, row: Row) -> None:
    """Add a row to a Markdown table, or replace the row of the same fault."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    kept = {line.split(" | ")[0].removeprefix("| "): line for line in lines[2:]}
    kept[row[0]] = _line(row)
    head = [_line(HEAD), "|" + "---|" * len(HEAD)]
    file.write_text("\n".join([*head, *kept.values()]) + "\n", encoding="utf-8")


def _line(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"
