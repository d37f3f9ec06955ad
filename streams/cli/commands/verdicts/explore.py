"""`judgestream explore`: the verdict store in a browser."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.errors import BadUsageError, CommandError

if TYPE_CHECKING:
    from streams.settings import Settings

StoreConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings file: store and access."),
]
StorePathOption = Annotated[
    Path | None,
    typer.Option(
        "--store", "-s", metavar="FILE", help="The store's file; default: store.path of the settings."
    ),
]
PortOption = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 picks a free one.")]


def explore(
    config: StoreConfigOption = None,
    store: StorePathOption = None,
    port: PortOption = 8081,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Also update the store from the topics, as its only writer."),
    ] = False,
) -> None:
    """Browse the verdict store: answers, their evidence, charts, incidents.

    Read only, until Ctrl-C. Listens on telemetry.host (127.0.0.1 by default) with its password and TLS. An
    address that others can reach requires a password or a client certificate.
    """
    from streams.cli.running import run_until_stopped
    from streams.cli.settings import bad_settings, settings_for_command
    from streams.errors import SettingsError, StreamsError
    from streams.telemetry.logs import set_up_logs
    from streams.telemetry.masking import settings_masker

    settings = settings_with_store(settings_for_command(config), store)
    set_up_logs(settings.telemetry, masker=settings_masker(settings, os.environ))
    try:
        run_until_stopped(lambda stop: _serve(settings, port, stop, follow=follow))
    except SettingsError as error:
        raise bad_settings(error, config) from error
    except StreamsError as error:
        raise CommandError(str(error)) from error


def settings_with_store(settings: Settings, store: Path | None) -> Settings:
    """Return the settings with the store's file replaced by the command's."""
    if store is None:
        return settings
    return settings.model_copy(update={"store": settings.store.model_copy(update={"path": store})})


async def _serve(settings: Settings, port: int, stop: asyncio.Event, *, follow: bool) -> None:
    from contextlib import AsyncExitStack

    from streams.store.agent import StoreAgent
    from streams.store.views.explorer import open_explorer
    from streams.web.access import open_access
    from streams.web.port import Port

    auth, tls = open_access(settings.telemetry)
    listening = Port(setting="--port", host=settings.telemetry.host, port=port, auth=auth, tls=tls)
    if not listening.guarded:
        raise BadUsageError(
            f"telemetry.host: {settings.telemetry.host} can be reached by others, who could read answers; "
            "set telemetry.basic_auth, "
            "or telemetry.tls with client_ca_file, or listen on 127.0.0.1"
        )
    if not follow and not settings.store.path.is_file():
        raise BadUsageError(
            f"there is no store at {settings.store.path}; run a worker with --agents store, name "
            "it with --store, or use --follow"
        )
    explorer = open_explorer(settings)
    app = listening.application()
    explorer.add_to(app)
    async with AsyncExitStack() as stack:
        await listening.start(app)
        stack.push_async_callback(listening.stop)
        if follow:
            following = asyncio.create_task(StoreAgent(settings).run())
            stack.push_async_callback(_ended, following)
        typer.echo(f"answers: {listening.url}/explore (stop with Ctrl-C)")
        await stop.wait()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
