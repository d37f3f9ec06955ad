"""`judgestream incident`: show a drop and its likely cause."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import json
import shutil
import sys
from typing import Annotated, Any

import typer

from streams.cli.commands.verdicts.explore import StoreConfigOption, StorePathOption, settings_with_store
from streams.cli.errors import BadUsageError, CommandError

NO_TERMINAL_COLUMNS = 200


def incident(
    incident_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="The incident, one of its alerts, or latest; default: list all, the latest first.",
        ),
    ] = None,
    config: StoreConfigOption = None,
    store: StorePathOption = None,
    link: Annotated[
        str | None,
        typer.Option("--link", metavar="URL", help="Address of the explorer, for links to examples."),
    ] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, for a ticket or a chat.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print an incident: what fell, the likely cause, examples, and what to do next.

    Drops that started together form one incident. Reads the verdict store (judgestream worker --agents
    store).
    """
    from judge.text.printable import printable
    from streams.cli.settings import settings_for_command
    from streams.errors import StoreError
    from streams.store.database import Reader
    from streams.store.views.card import card
    from streams.store.views.explorer import score_ranges
    from streams.store.views.incidents import find, known_incidents, summary_of
    from streams.store.views.report import markdown, plain, report_on, values_of

    settings = settings_with_store(settings_for_command(config), store)
    reader = Reader(settings.store.path)
    try:
        with reader.snapshot() as snapshot:
            known = known_incidents(snapshot)
            if incident_id is None:
                _list([summary_of(one) | {"card": card(one)} for one in known], as_json=as_json)
                return
            found = find(known, incident_id)
            if found is None:
                ids = ", ".join(one.incident_id for one in known[:10]) or "none"
                raise BadUsageError(f"there is no incident {printable(incident_id, 40)}; the store has {ids}")
            report = report_on(
                snapshot, found, ranges=score_ranges(settings), product_labels=settings.store.product_labels
            )
    except StoreError as error:
        raise CommandError(str(error)) from error
    if as_json:
        typer.echo(json.dumps(values_of(report) | {"card": card(found, report)}, default=str))
    elif as_markdown:
        typer.echo(markdown(report, link=link), nl=False)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else NO_TERMINAL_COLUMNS
        typer.echo(plain(report, link=link, width=max(width, 40)), nl=False)


def _list(incidents: list[dict[str, Any]], *, as_json: bool) -> None:
    from datetime import UTC, datetime

    from streams.store.views.incidents import counted_alerts

    for one in incidents:
        if as_json:
            typer.echo(json.dumps(one))
            continue
        since = datetime.fromtimestamp(int(str(one["started"])) / 1000, UTC)
        state = "open" if one["ended"] is None else "over"
        typer.echo(
            f"{one['incident_id']} {state} since about {since:%Y-%m-%d %H:%M} UTC: {one['card'][0]} "
            f"({counted_alerts(int(str(one['alerts'])))})"
        )
    if not incidents and not as_json:
        typer.echo("the store has no drops")
