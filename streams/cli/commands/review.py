"""What people say: `review` and `labels` take it, `calibrate` compares the judge with it."""

from __future__ import annotations

import asyncio
import getpass
import os
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from typer import Argument, Option, Typer, echo

from streams.cli.options import BROKERS, CONFIG, JSON_LINES, ONLY_METRIC, STORE
from streams.cli.running import BadUsageError, CommandError, emit_each
from streams.cli.session import opened, session
from streams.errors import BadFilterError

labels_app = Typer(name="labels", help="Export and import human labels.")


def review(
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    bootstrap_servers: str | None = BROKERS,
    host: str = Option("127.0.0.1", help="Address to listen on."),
    port: int = Option(8082, "--port", "-p", min=0, max=65535, help="0 picks a free one."),
    incident: str | None = Option(None, metavar="ID", help="Begin with the worst answers of this incident."),
    size: int = Option(10, metavar="N", min=1, max=500, help="Number of answers of --incident."),
    who: str | None = Option(None, help="Name on the labels; default: the login, or your user name."),
) -> None:
    """Label verdicts in a browser until Ctrl-C: a random sample, doubtful verdicts, or an incident's.

    Labels are written to the topic qa.labels, which every store reads. An address that others can reach
    requires review.basic_auth, a login separate from the one for reading.
    """
    from streams.store.views.explorer import Explorer
    from streams.store.views.review import Review
    from streams.web.port import BasicAuth, Port, server_tls

    call = session(config, bootstrap_servers, store)
    call.log_as_worker()
    call.require_store("or name it with --store")
    page = "/review" if incident is None else f"/review?{urlencode({'incident': incident, 'size': size})}"

    async def serve(stop: asyncio.Event) -> None:
        settings = call.settings
        login, tls = settings.review.basic_auth, settings.telemetry.tls
        auth = None if login is None else BasicAuth(login, os.environ, "review")
        context = None if tls is None else server_tls(tls)
        listening = Port(setting="--port", host=host, port=port, auth=auth, tls=context)
        if not listening.guarded:
            remedy = "set review.basic_auth, or listen on 127.0.0.1"
            raise BadUsageError(f"--host: {host} can be reached by others; {remedy}")
        name = who or (getpass.getuser() if login is None else login.username)
        async with call.sending(settings.topics.labels) as send:
            explorer = Explorer(settings)
            taking = Review(explorer=explorer, publish=lambda label: send(label, label.event_id), who=name)
            line = f"review: {{}}{page} (labels by {name}; stop with Ctrl-C)"
            await call.serve(listening, (explorer, taking), stop, line)

    call.run(serve)


@labels_app.command("import")
def import_labels(
    file: Path = Argument(..., metavar="FILE", help="CSV with a header, or JSON lines; `-`: standard input."),
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    bootstrap_servers: str | None = BROKERS,
    who: str = Option("import", help="Name on the labels of lines without one."),
) -> None:
    """Import labels to the topic qa.labels, with result_id, or event_id and metric, and a score.

    The score is of the metric's type: a number, true or false, or a label; empty means "cannot say". Optional
    columns: note, who, labelled_at. Importing a file twice adds nothing. If a line is invalid, nothing is
    imported.
    """
    from streams.batch.comparison import label_rows
    from streams.store.views.labels import read_labels

    call = session(config, bootstrap_servers, store)
    try:
        with opened(file) as handle, call.snapshot() as snapshot:
            rows = label_rows(handle.read(), file)
            labels = read_labels(rows, snapshot, who=who, scales=call.metrics())
    except BadFilterError as error:
        raise BadUsageError(f"{file}: {error}") from error

    async def send_all() -> None:
        async with call.sending(call.settings.topics.labels) as send:
            for label in labels:
                await send(label, label.event_id)

    call.run(lambda _: send_all())
    echo(f"{len(labels)} labels on {call.settings.topics.labels}")


@labels_app.command("export")
def export_labels(
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    form: Literal["csv", "jsonl"] = Option("csv", "--format", "-f", help="Output format."),
) -> None:
    """Print all labels of the store with the judge's score, oldest first."""
    from streams.store.views.labels import exported

    with session(config, store=store).snapshot() as snapshot:
        echo(exported(snapshot, form), nl=False)


@labels_app.command("agreement")
def agreement(config: Path | None = CONFIG, store: Path | None = STORE, as_json: bool = JSON_LINES) -> None:
    """Print each evaluator's agreement with people beyond chance (kappa), by labelling policy.

    Only labels with a known probability represent all verdicts: see `judgestream calibrate`.
    """
    from streams.store.views.labels import agreements, all_labels

    with session(config, store=store).snapshot() as snapshot:
        found = agreements(all_labels(snapshot))
    lines = [one.lines()[0] for one in found] or ["the store has no label of a scored verdict"]
    emit_each((one.as_json() for one in found), lines, as_json=as_json)


def calibrate(
    results: Path | None = Argument(None, metavar="[RESULTS]", help="Of `judge -o`; default: the store."),
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
