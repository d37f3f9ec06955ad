"""`judgestream broker` and `judgestream offline-judge`: the demo's parts, each on its own."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.cli.errors import BadUsageError, CommandError
from streams.cli.session import JsonOption, emit

if TYPE_CHECKING:
    from collections.abc import Callable

PortOption = Annotated[
    int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
]


def broker(
    port: PortOption = 9092,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="NAME:PARTITIONS", help="Create a topic; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run an in-memory Kafka broker on loopback until SIGTERM or Ctrl-C.

    For trials and tests: its records are lost when it ends. Unknown topics are created on request.
    """
    from streams.embedded.broker import EmbeddedBroker
    from streams.embedded.wire import EmbeddedBrokerError

    topics = dict(_topic(text) for text in topic or ())

    def tell(server: Any) -> None:
        line = f"embedded Kafka broker at {server.bootstrap_servers} (in memory, loopback only)"
        emit({"bootstrap_servers": server.bootstrap_servers, "topics": topics}, [line], as_json=as_json)

    try:
        _serve(lambda: EmbeddedBroker(port=port, topics=topics), port, tell)
    except (EmbeddedBrokerError, ValueError) as error:
        raise BadUsageError(str(error)) from error


def offline_judge(
    port: PortOption = 8000,
    latency_seconds: Annotated[
        float, typer.Option("--latency-seconds", min=0, max=3600, help="Latency of each reply.")
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Run the rule-based judge as an OpenAI-compatible endpoint on loopback, until SIGTERM or Ctrl-C.

    It compares words and is free. Its results contain its name.
    """
    from judge.offline.server import OfflineJudge

    def tell(server: Any) -> None:
        line = f"offline judge at {server.base_url}, model {server.model} (rules, no language model)"
        emit({"base_url": server.base_url, "model": server.model}, [line], as_json=as_json)

    _serve(lambda: OfflineJudge(port=port, latency_seconds=latency_seconds), port, tell)


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition(":")
    if not name or not count.isascii() or not count.isdigit() or not 1 <= int(count) <= 10_000:
        raise BadUsageError(
            f"--topic must be NAME:PARTITIONS with 1 to 10000 partitions, got {text!r}; for "
            "example qa.events:4"
        )
    return name, int(count)


def _serve(build: Callable[[], Any], port: int, tell: Callable[[Any], None]) -> None:
    """Run a server until a signal."""
    from streams.cli.running import run_until_stopped

    async def serve(stop: Any) -> None:
        server = build()
        try:
            await server.start()
        except OSError as error:
            raise CommandError(
                f"cannot listen on 127.0.0.1:{port}: {error.strerror or error}; choose another --port, "
                "or 0 for a free one"
            ) from error
        try:
            tell(server)
            await stop.wait()
        finally:
            await server.stop()

    run_until_stopped(serve)
