"""`judgestream review`: label verdicts; `judgestream labels`: import, export and compare labels."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import getpass
import json
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlencode

import typer

from streams.cli.commands.verdicts.explore import StorePathOption, settings_with_store
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.session import BootstrapOption, ConfigOption, Session, help_without_command, session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from schemas import Label
    from streams.settings import Settings
    from streams.store.views.labels import Scales
    from streams.store.views.review import Publish

labels_app = typer.Typer(name="labels", help="Export and import human labels.")
labels_app.callback(invoke_without_command=True)(help_without_command)


def review(
    config: ConfigOption = None,
    store: StorePathOption = None,
    bootstrap_servers: BootstrapOption = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, help="Port; default: review.port (8082). 0 picks a free one."
        ),
    ] = None,
    incident: Annotated[
        str | None,
        typer.Option("--incident", metavar="ID", help="Begin with the worst answers of this incident."),
    ] = None,
    size: Annotated[
        int, typer.Option("--size", metavar="N", min=1, max=500, help="Number of answers of --incident.")
    ] = 10,
    who: Annotated[
        str | None,
        typer.Option(
            "--who", help="Name on the labels; default: the user of review.basic_auth, or your user name."
        ),
    ] = None,
) -> None:
    """Label verdicts in a browser until Ctrl-C: a random sample, doubtful verdicts, or an incident's.

    Labels are written to the topic qa.labels, which every store reads. An address that others can reach
    requires review.basic_auth, a login separate from the one for reading.
    """
    from streams.telemetry.logs import set_up_logs
    from streams.telemetry.masking import settings_masker

    where = session(config, bootstrap_servers)
    settings = settings_with_store(where.settings, store)
    set_up_logs(settings.telemetry, masker=settings_masker(settings, os.environ))
    if not settings.store.path.is_file():
        raise BadUsageError(
            f"there is no store at {settings.store.path}; run a worker with --agents store, or "
            "name it with --store"
        )
    chosen = settings.review.port if port is None else port
    page = "/review" if incident is None else f"/review?{urlencode({'incident': incident, 'size': size})}"
    where.run(lambda stop: _serve(where, settings, chosen, who, stop, page=page))


async def _serve(
    where: Session, settings: Settings, port: int, who: str | None, stop: asyncio.Event, *, page: str
) -> None:
    from streams.store.database import Reader
    from streams.store.views.explorer import open_explorer
    from streams.store.views.review import Review
    from streams.web.access import BasicAuth, server_tls
    from streams.web.port import Port

    wanted, tls = settings.review, settings.telemetry.tls
    auth = None if wanted.basic_auth is None else BasicAuth(wanted.basic_auth, os.environ, "review")
    listening = Port(
        setting="review.port",
        host=wanted.host,
        port=port,
        auth=auth,
        tls=None if tls is None else server_tls(tls),
        open_paths=(),
    )
    if not listening.guarded:
        raise BadUsageError(
            f"review.host: {wanted.host} can be reached by others; set review.basic_auth, or listen on "
            "127.0.0.1"
        )
    name = who or (wanted.basic_auth.username if wanted.basic_auth is not None else getpass.getuser())
    async with _publishing(where) as publish:
        explorer = open_explorer(settings)
        taking = Review(Reader(settings.store.path), publish=publish, who=name, scales=_scales(settings))
        app = listening.application()
        explorer.add_to(app)
        taking.add_to(app)
        await listening.start(app)
        try:
            typer.echo(f"review: {listening.url}{page} (labels by {name}; stop with Ctrl-C)")
            await stop.wait()
        finally:
            await listening.stop()


def _scales(settings: Settings) -> Scales:
    from streams.judging.metrics import build_metrics
    from streams.store.views.labels import Scales

    metrics = build_metrics(settings)
    return Scales(
        {name: metric.score_range for name, metric in metrics.items()},
        {name: metric.labels for name, metric in metrics.items()},
    )


@asynccontextmanager
async def _publishing(where: Session) -> AsyncIterator[Publish]:
    from streams.kafka.topics.grants import produce_grants

    topic = where.settings.topics.labels
    async with where.producer(produce_grants(topic)) as producer:

        async def publish(label: Label) -> None:
            await producer.send_and_wait(topic, label.model_dump_json().encode(), key=label.event_id.encode())

        yield publish


@labels_app.command("import")
def import_labels(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV with a header, or one JSON object per line; `-` reads standard input."
        ),
    ],
    config: ConfigOption = None,
    store: StorePathOption = None,
    bootstrap_servers: BootstrapOption = None,
    who: Annotated[str, typer.Option("--who", help="Name on the labels of lines without one.")] = "import",
) -> None:
    """Import labels to the topic qa.labels, with result_id, or event_id and metric, and a score.

    The score is of the metric's type: a number, true or false, or a label; empty means "cannot say". Optional
    columns: note, who, labelled_at. Importing a file twice adds nothing. If a line is invalid, nothing is
    imported.
    """
    from streams.cli.lines import opened
    from streams.cli.settings import bad_settings
    from streams.errors import BadFilterError, SettingsError, StoreError
    from streams.store.database import Reader
    from streams.store.views.labels import read_labels

    where = session(config, bootstrap_servers)
    settings = settings_with_store(where.settings, store)
    reader = Reader(settings.store.path)
    try:
        with opened(file) as lines, reader.snapshot() as snapshot:
            labels = read_labels(lines.read(), snapshot, who=who, scales=_scales(settings))
    except BadFilterError as error:
        raise BadUsageError(f"{file}: {error}") from error
    except SettingsError as error:
        raise bad_settings(error, config) from error
    except StoreError as error:
        raise CommandError(str(error)) from error

    async def publish_all() -> None:
        async with _publishing(where) as publish:
            for label in labels:
                await publish(label)

    where.run(lambda _: publish_all())
    typer.echo(f"{len(labels)} labels on {where.settings.topics.labels}")


@labels_app.command("export")
def export_labels(
    config: ConfigOption = None,
    store: StorePathOption = None,
    form: Annotated[Literal["csv", "jsonl"], typer.Option("--format", "-f", help="Output format.")] = "csv",
) -> None:
    """Print all labels of the store with the judge's score, oldest first."""
    from streams.cli.settings import settings_for_command
    from streams.errors import StoreError
    from streams.store.database import Reader
    from streams.store.views.labels import label_lines

    reader = Reader(settings_with_store(settings_for_command(config), store).store.path)
    try:
        with reader.snapshot() as snapshot:
            for line in label_lines(snapshot, form):
                typer.echo(line, nl=False)
    except StoreError as error:
        raise CommandError(str(error)) from error


@labels_app.command("agreement")
def agreement(
    config: ConfigOption = None,
    store: StorePathOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Print each evaluator's agreement with people beyond chance (kappa), by how verdicts were selected.

    Only labels of a random sample represent all verdicts.
    """
    from dataclasses import asdict

    from streams.cli.settings import settings_for_command
    from streams.errors import StoreError
    from streams.store.database import Reader
    from streams.store.views.labels import agreements, all_labels

    reader = Reader(settings_with_store(settings_for_command(config), store).store.path)
    try:
        with reader.snapshot() as snapshot:
            found = agreements(all_labels(snapshot))
    except StoreError as error:
        raise CommandError(str(error)) from error
    for one in found:
        shown = "-" if one.kappa is None else f"{one.kappa:.2f}"
        if one.interval is not None:
            shown += f" (95%: {one.interval[0]:.2f} to {one.interval[1]:.2f})"
        same = f"{one.same} of {one.labels} labels equal the judge's score, kappa {shown}"
        line = f"{one.metric} ({one.fingerprint}), {one.selection}: {same}"
        typer.echo(json.dumps(asdict(one)) if as_json else line)
    if not found and not as_json:
        typer.echo("the store has no label of a scored verdict")
