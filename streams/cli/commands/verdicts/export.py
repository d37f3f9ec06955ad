"""`judgestream export`: write verdicts to files."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from streams.cli.commands.verdicts.explore import StorePathOption, settings_with_store
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.session import BootstrapOption, ConfigOption, session

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from streams.settings import Settings
    from streams.store.query import Filter


def export(
    since: Annotated[
        str | None, typer.Option("--since", help="Start time: 24h, 7d, 2026-03-14, or RFC 3339.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="End time.")] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", metavar="NAME", help="Only this metric.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Only with this label; repeatable."),
    ] = None,
    form: Annotated[
        Literal["csv", "jsonl", "parquet"], typer.Option("--format", "-f", help="Output format.")
    ] = "jsonl",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Folder for a file per day (day=2026-03-14/verdicts.csv); default: standard output.",
        ),
    ] = None,
    from_topics: Annotated[
        bool, typer.Option("--from-topics", help="Read the topics from the beginning instead of the store.")
    ] = False,
    views: Annotated[
        Literal["duckdb", "clickhouse"] | None,
        typer.Option(
            "--views",
            help="Only print SQL: DuckDB views over the files, or ClickHouse tables.",
        ),
    ] = None,
    config: ConfigOption = None,
    store: StorePathOption = None,
    bootstrap_servers: BootstrapOption = None,
) -> None:
    """Write verdicts as CSV, JSON lines or Parquet, one row each, with human labels.

    Parquet needs the extra `duckdb` and --output.
    """
    from streams.errors import BadFilterError, StreamsError
    from streams.store import verdicts
    from streams.store.database import Reader
    from streams.store.query import parse
    from streams.store.views.export import flat, sql, write_days, write_stream

    settings = settings_with_store(session(config, bootstrap_servers).settings, store)
    if views is not None:
        names = {
            "folder": str(output or "export"),
            "brokers": settings.kafka.bootstrap_servers,
            "topic": settings.topics.scores,
        }
        typer.echo(sql(views, **names), nl=False)
        return
    if form == "parquet" and output is None:
        raise BadUsageError("--format parquet needs --output FOLDER")
    query = {name: value for name, value in (("since", since), ("until", until), ("metric", metric)) if value}
    try:
        wanted: Filter = parse(query, label or [], datetime.now(UTC))
        with _source(settings, from_topics=from_topics) as path:
            # An export may run longer than a page's query.
            reader = Reader(path, longest_seconds=24 * 3600)
            with reader.snapshot() as snapshot:
                rows = (flat(row) for row in verdicts.every(snapshot, wanted))
                if output is None:
                    write_stream(rows, sys.stdout, form)
                else:
                    typer.echo(f"{write_days(rows, output, form)} verdicts in {output}", err=True)
    except BadFilterError as error:
        raise BadUsageError(f"--{error}") from error
    except StreamsError as error:
        raise CommandError(str(error)) from error


@contextmanager
def _source(settings: Settings, *, from_topics: bool) -> Iterator[Path]:
    """Yield the path of the settings' store, or of a temporary store filled from the topics."""
    from tempfile import TemporaryDirectory

    if not from_topics:
        yield settings.store.path
        return
    with TemporaryDirectory(prefix="judgestream-export-") as folder:
        path = Path(folder) / "store.sqlite3"
        from streams.cli.running import run_until_stopped

        kept = settings.store.model_copy(
            update={"path": path, "texts": "none", "keep_days": 3_650, "max_gigabytes": 10_000.0}
        )
        run_until_stopped(lambda stop: _filled(settings.model_copy(update={"store": kept}), stop))
        yield path


async def _filled(settings: Settings, stop: asyncio.Event) -> None:
    import asyncio

    from streams.store.agent import StoreAgent

    agent = StoreAgent(settings)
    task = asyncio.create_task(agent.run())
    try:
        while not stop.is_set() and agent.behind != 0:
            if agent.trouble is not None:
                raise CommandError(agent.trouble)
            await asyncio.sleep(0.1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if stop.is_set():
        raise typer.Exit(130)
