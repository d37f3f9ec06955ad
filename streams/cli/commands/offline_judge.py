"""`judgestream offline-judge`: the rule-based judge on its own."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from streams.cli.errors import CommandError


def offline_judge(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8000,
    latency_seconds: Annotated[
        float, typer.Option("--latency-seconds", min=0, max=3600, help="Latency of each reply.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Run the rule-based judge as an OpenAI-compatible endpoint on loopback, until SIGTERM or Ctrl-C.

    It compares words and is free. Its results contain its name.
    """
    from streams.cli.running import run_until_stopped

    run_until_stopped(lambda stop: _serve(port, latency_seconds, as_json, stop))


async def _serve(port: int, latency_seconds: float, as_json: bool, stop: asyncio.Event) -> None:
    from judge.offline.server import OfflineJudge

    server = OfflineJudge(port=port, latency_seconds=latency_seconds)
    try:
        await server.start()
    except OSError as error:
        raise CommandError(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror or error}; choose another --port, "
            "or 0 for a free one"
        ) from error
    try:
        if as_json:
            typer.echo(json.dumps({"base_url": server.base_url, "model": server.model}))
        else:
            typer.echo(f"offline judge at {server.base_url}, model {server.model} (rules, no language model)")
        await stop.wait()
    finally:
        await server.stop()
