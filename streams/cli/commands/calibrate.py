"""`judgestream calibrate`: what people would give, and how far the judge says what they say."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option, echo

from streams.cli.running import BadUsageError, CommandError, json_text
from streams.cli.session import CONFIG, ONLY_METRIC, STORE, bad_settings, session


def calibrate(
    results: Path | None = Argument(
        None, metavar="[RESULTS]", help="Results of `judgestream judge -o`; default: the store."
    ),
    labels: Path | None = Option(
        None, help="With RESULTS: people's scores (event_id, score; metric, who, probability)."
    ),
    score_column: str = Option("score", metavar="NAME", help="The column of --labels with people's scores."),
    pass_from: float | None = Option(
        None, metavar="SCORE", help="Compare pass and fail, the judge's from this score; people: true, false."
    ),
    random: bool = Option(False, "--random", help="The labelled answers are a random sample of RESULTS."),
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    metric: str | None = ONLY_METRIC,
    as_json: bool = Option(False, "--json", help="Print JSON, one object per line."),
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
    from streams.errors import SettingsError
    from streams.judging.metrics import build_metrics
    from streams.store.views.calibration import calibrations

    if (results is None) != (labels is None):
        raise BadUsageError("RESULTS and --labels belong together; give both, or none for the store")
    try:
        if results is None or labels is None:
            call = session(config, store=store)
            with call.snapshot() as snapshot:
                found = calibrations(snapshot, build_metrics(call.settings), metric)
        else:
            own = build_metrics(session(config).settings) if config is not None else {}
            scales = {name: build_metric(name) for name in metric_names()} | dict(own)
            given = (one for one in read_results(results) if metric in (None, one.metric))
            people = read_human_labels(labels, score_column)
            found = of_file(people, given, scales, labels, pass_from=pass_from, random=random)
    except SettingsError as error:
        raise bad_settings(error, config) from error
    if not found:
        what = "no label is of a scored answer"
        raise CommandError(f"{what}; label some (judgestream review), or compare the event ids")
    for place, one in enumerate(found):
        echo(json_text(one.as_json()) if as_json else "\n".join([*([""] if place else []), *one.lines()]))
