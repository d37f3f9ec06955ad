"""What `judgestream judge` reports at the end of a run, and its exit code."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from streams.cli.errors import BadUsageError, CommandError
from streams.cli.file_run import FileCall, FileRun

if TYPE_CHECKING:
    from schemas import Result
    from streams.batch.agreement import Agreement
    from streams.batch.comparison import Comparison
    from streams.batch.results import ResultFile, Texts
    from streams.batch.tally import Tally


def report(
    call: FileCall,
    run: FileRun,
    earlier: Sequence[Result],
    agreements: Sequence[Agreement],
    results: ResultFile | None,
    *,
    as_json: bool,
) -> None:
    """Print the summary, write the page, move the results to --output, and end with the exit code.

    Raises:
        BadUsageError: The page cannot be written.
        CommandError: The run or its results call for exit code 1.
    """
    comparisons = _compared(call, earlier, run.kept)
    _tell(call, run.summary, comparisons, agreements, as_json=as_json)
    if call.html is not None:
        _write_page(call.html, run, earlier, comparisons, agreements)
    _end(call, run.summary, comparisons, results, run.texts)


def _compared(call: FileCall, earlier: Sequence[Result], now: Sequence[Result]) -> list[Comparison]:
    from streams.batch.comparison import compare

    return [] if call.compare is None else [compare(name, earlier, now) for name in call.metrics]


def _tell(
    call: FileCall,
    summary: Tally,
    comparisons: Sequence[Comparison],
    agreements: Sequence[Agreement],
    *,
    as_json: bool,
) -> None:
    if as_json:
        told = summary.as_json()
        if comparisons:
            told["comparisons"] = [one.as_json() for one in comparisons]
        if call.labels is not None:
            told["agreement"] = [one.as_json() for one in agreements]
        text = json.dumps(told, ensure_ascii=False)
    else:
        lines = [summary.text(), *(one.text() for one in comparisons)]
        lines += [line for one in agreements for line in one.lines()]
        if call.labels is not None and not agreements:
            lines.append(f"--labels {call.labels}: no label is of a scored answer; compare the event ids")
        text = "\n".join(lines)
    typer.echo(text, err=not (as_json and call.output is not None))


def _write_page(
    html: Path,
    run: FileRun,
    earlier: Sequence[Result],
    comparisons: Sequence[Comparison],
    agreements: Sequence[Agreement],
) -> None:
    from streams.batch.page import Row, page

    before = {(one.event_id, one.metric): one for one in earlier}
    people = {(key, one.metric): scores for one in agreements for key, scores in one.people.items()}
    rows = [
        Row(
            one,
            run.texts.get(one.result_id),
            before.get((one.event_id, one.metric)),
            people.get((one.event_id, one.metric), ()),
        )
        for one in run.kept
    ]
    try:
        html.write_text(page(run.name, run.summary, rows, comparisons, agreements), encoding="utf-8")
    except OSError as error:
        raise BadUsageError(f"cannot write {html}: {error.strerror}") from error


def _end(
    call: FileCall,
    summary: Tally,
    comparisons: Sequence[Comparison],
    results: ResultFile | None,
    texts: Mapping[str, Texts],
) -> None:
    """Move the results to --output, or print where they are; set the exit code."""
    if summary.interrupted or summary.outage is not None:
        kept = None if results is None else results.leave()
        if summary.outage is not None:
            written = f"{summary.results} results were written before" if results is None else kept
            raise CommandError("; ".join(part for part in (summary.outage, written) if part))
        if kept is not None:
            typer.echo(kept, err=True)
        raise typer.Exit(130)
    if results is not None and summary.all_failed:
        results.leave()
    elif results is not None and summary.results:
        results.finish(texts)
    problems = [*_problems(call, summary)]
    problems += [f"--compare {call.compare}: {one.text()}" for one in comparisons if one.is_worse]
    if problems:
        raise CommandError("; ".join(problems))


def _problems(call: FileCall, summary: Tally) -> Iterator[str]:
    if summary.invalid:
        yield f"{summary.invalid.total()} of {summary.lines} lines are not events"
    if summary.all_failed:
        reasons = ", ".join(f"{why} {n}" for one in summary.metrics for why, n in one.failed.most_common(3))
        yield f"judging failed for all events ({reasons})"
    for name, least in call.fail_under:
        mean = next(one for one in summary.metrics if one.metric == name).scored.mean
        if mean is None or mean < least:
            shown = "nothing was scored" if mean is None else f"the mean is {mean:.2f}"
            yield f"--fail-under {name}={least:g}: {shown}"
