"""`judgestream broker`: the embedded broker on its own."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from streams.cli.errors import BadUsageError, CommandError


def broker(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 9092,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="NAME:PARTITIONS", help="Create a topic; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Run an in-memory Kafka broker on loopback until SIGTERM or Ctrl-C.

    For trials and tests: its records are lost when it ends. Unknown topics are created on request.
    """
    from streams.cli.running import run_until_stopped

    topics = dict(_topic(text) for text in topic or ())
    run_until_stopped(lambda stop: _serve(port, topics, as_json, stop))


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition(":")
    if not name or not count.isascii() or not count.isdigit() or not 1 <= int(count) <= 10_000:
        raise BadUsageError(
            f"--topic must be NAME:PARTITIONS with 1 to 10000 partitions, got {text!r}; for "
            "example qa.events:4"
        )
    return name, int(count)


async def _serve(port: int, topics: dict[str, int], as_json: bool, stop: asyncio.Event) -> None:
    from streams.embedded.broker import EmbeddedBroker
    from streams.embedded.errors import EmbeddedBrokerError

    try:
        server = EmbeddedBroker(port=port, topics=topics)
    except (EmbeddedBrokerError, ValueError) as error:
        raise BadUsageError(str(error)) from error
    try:
        await server.start()
    except OSError as error:
        raise CommandError(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror or error}; choose another --port, "
            "or 0 for a free one"
        ) from error
    try:
        if as_json:
            typer.echo(json.dumps({"bootstrap_servers": server.bootstrap_servers, "topics": topics}))
        else:
            typer.echo(f"embedded Kafka broker at {server.bootstrap_servers} (in memory, loopback only)")
        await stop.wait()
    finally:
        await server.stop()
