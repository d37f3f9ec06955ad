"""`judgestream calibrate`: what people would give, and how far the judge says what they say."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from streams.cli.running import BadUsageError, CommandError, emit_each
from streams.cli.session import CONFIG, JSON_LINES, ONLY_METRIC, STORE, session


def calibrate(
    results: Path | None = Argument(
        None, metavar="[RESULTS]", help="Of `judgestream judge -o`; default: the store."
    ),
    labels: Path | None = Option(None, help="People's scores (event_id, score; metric, who, probability)."),
    score_column: str = Option("score", metavar="NAME", help="The column of --labels with people's scores."),
    pass_from: float | None = Option(
        None, metavar="SCORE", help="Compare pass (from this score) and fail with true and false."
    ),
    random: bool = Option(False, "--random", help="The labelled answers are a random sample of RESULTS."),
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    metric: str | None = ONLY_METRIC,
    as_json: bool = JSON_LINES,
) -> None:
    """Print what people would give on average, and the judge's agreement with them, by evaluator.

    The estimate combines few labels with all verdicts (PPI++). It needs 30 labels with a known probability,
    as `judgestream review` draws them, or labels of all RESULTS, of a random sample of them (--random), or
    with a column probability. Then: agreement beyond chance (kappa), the table of choices, the judge's bias
    by label value, and how many more labels halve the interval.
    """
    from judge.metrics.registry import build_metric, metric_names
    from streams.batch.comparison import calibrations as of_file
    from streams.batch.comparison import read_human_labels
    from streams.batch.results import read_results
    from streams.store.views.calibration import calibrations

    if (results is None) != (labels is None):
        raise BadUsageError("RESULTS and --labels belong together; give both, or none for the store")
    if results is None or labels is None:
        call = session(config, store=store)
        with call.snapshot() as snapshot:
            found = calibrations(snapshot, call.metrics(), metric)
    else:
        scales = {name: build_metric(name) for name in metric_names()}
        scales |= {} if config is None else session(config).metrics()
        given = (one for one in read_results(results) if metric in (None, one.metric))
        people = read_human_labels(labels, score_column)
        found = of_file(people, given, scales, labels, pass_from=pass_from, random=random)
    if not found:
        what = "no label is of a scored answer"
        raise CommandError(f"{what}; label some (judgestream review), or compare the event ids")
    lines = "\n\n".join("\n".join(one.lines()) for one in found)
    emit_each((one.as_json() for one in found), [lines], as_json=as_json)
