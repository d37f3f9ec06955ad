"""`judgestream produce`: send the lines of a file as records."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.lines import opened, progress
from streams.cli.session import BootstrapOption, ConfigOption, JsonOption, Session, emit, session

MAX_UNCONFIRMED = 2000
MAX_PROBLEMS_SHOWN = 10


def produce(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines; `-` reads standard input.")],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", "-t", help="The topic; default: the events topic of --config, else qa.events."
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", "-r", metavar="R", help="Records per second; default: unlimited."),
    ] = None,
    key_field: Annotated[
        str,
        typer.Option("--key-field", metavar="NAME", help="The field to use as the record's key."),
    ] = "event_id",
    bootstrap_servers: BootstrapOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send the lines of a file to a topic, unchanged.

    Lines that are not JSON are sent without a key. Empty lines are skipped. Ends when the broker has
    acknowledged every record; exit code 1 if it refused any.
    """
    if rate is not None and not rate > 0:
        raise BadUsageError(f"--rate must be above 0 records per second, got {rate:g}; omit it for no limit")
    call = session(config, bootstrap_servers)
    target = topic or call.settings.topics.events
    sender = _Sender(target, rate=rate, key_field=key_field)
    started = time.monotonic()
    with opened(file) as lines, progress(file) as advance:
        sender.on_confirmed = advance
        call.run(lambda stop: sender.run(lines, call, stop))
    seconds = time.monotonic() - started
    counts = {"sent": sender.confirmed, "without_key": sender.without_key, "refused": sender.refused}
    records = "1 record" if sender.confirmed == 1 else f"{sender.confirmed} records"
    keyless = f", {sender.without_key} of them without a key" if sender.without_key else ""
    line = f"{records} on {printable(target)} in {seconds:.1f} s{keyless}"
    emit({"topic": target, **counts, "seconds": round(seconds, 3)}, [line], as_json=as_json)
    if sender.refused:
        raise CommandError(
            f"the broker refused {sender.refused} of the records:\n"
            + "\n".join(f"  {text}" for text in sender.problems)
        )
    if sender.interrupted:
        raise typer.Exit(130)


class _Sender:
    """Sends lines and counts the outcomes."""

    def __init__(self, topic: str, *, rate: float | None, key_field: str) -> None:
        self.confirmed = 0
        self.refused = 0
        self.without_key = 0
        self.problems: list[str] = []
        self.interrupted = False
        self.on_confirmed: Callable[[], None] = lambda: None
        self._topic = topic
        self._rate = rate
        self._key_field = key_field
        self._room = asyncio.Semaphore(MAX_UNCONFIRMED)

    async def run(self, lines: BinaryIO, call: Session, stop: asyncio.Event) -> None:
        from streams.kafka.topics.grants import produce_grants

        async with call.producer(produce_grants(self._topic), linger_ms=5) as producer:
            # A metadata request that names a topic may create it or wait for it; the list of all topics does
            # not.
            known = (await producer.client.fetch_all_metadata()).topics()
            if self._topic not in known:
                raise call.no_topic(self._topic, known)
            await self._send_all(producer, lines, stop)
            self.interrupted = stop.is_set()
            await producer.flush()
            for _ in range(MAX_UNCONFIRMED):  # wait until every acknowledgement is counted
                await self._room.acquire()

    async def _send_all(self, producer: Any, lines: BinaryIO, stop: asyncio.Event) -> None:
        started = time.monotonic()
        sent = 0
        number = 0
        from streams.batch.sources import bounded_lines

        source = bounded_lines(lines, "the file")
        while not stop.is_set():
            # Read in a thread: standard input may block.
            line = (
                await asyncio.to_thread(next, source, b"") if lines is sys.stdin.buffer else next(source, b"")
            )
            if not line:
                return
            number += 1
            line = line.rstrip(b"\r\n")
            if not line:
                continue
            if self._rate is not None:
                delay = max(started + sent / self._rate - time.monotonic(), 0)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), delay)
                    return
            key = self._key(line)
            self.without_key += key is None
            await self._room.acquire()
            await self._send(producer, number, key, line)
            sent += 1

    async def _send(self, producer: Any, number: int, key: bytes | None, line: bytes) -> None:
        from aiokafka.errors import KafkaError

        try:
            future = await producer.send(self._topic, line, key=key)
        except KafkaError as error:
            self._count(number, error)
        else:
            future.add_done_callback(lambda done: self._count(number, done.exception()))

    def _count(self, number: int, error: BaseException | None) -> None:
        self._room.release()
        if error is None:
            self.confirmed += 1
            self.on_confirmed()
            return
        self.refused += 1
        if len(self.problems) < MAX_PROBLEMS_SHOWN:
            self.problems.append(f"line {number}: {type(error).__name__}: {printable(str(error), 200)}")

    def _key(self, line: bytes) -> bytes | None:
        import msgspec

        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        key = value.get(self._key_field) if isinstance(value, dict) else None
        return key.encode() if isinstance(key, str) and key else None
