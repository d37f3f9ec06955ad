"""The broker of the benchmarks, and filled topics."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from aiokafka import AIOKafkaProducer

from tests.integration.kafka import ApacheKafka, KafkaUnavailableError
from tests.integration.wire_client import create_topic

PARTITIONS = 4
COMMAND = (sys.executable, "-c", "import sys; from streams.cli.main import run; sys.exit(run())")
"""The command `judgestream` of the measured code."""
_BATCH_BYTES = 512 * 1024
_BATCHES_UNDER_WAY = 8
_STOP_SECONDS = 10.0
_numbers = itertools.count(1)


def fresh_name(stem: str) -> str:
    """Return an unused name."""
    return f"{stem}{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker.

    Args:
        bootstrap_servers: Host and port for clients.
        name: Its description, for the rows.
    """

    bootstrap_servers: str
    name: str

    def topic(self, name: str, partitions: int = PARTITIONS) -> str:
        """Create a topic and return its name."""
        create_topic(self.bootstrap_servers, name, partitions)
        return name

    def fill(self, topic: str, records: Iterable[tuple[bytes, bytes]], partitions: int = PARTITIONS) -> int:
        """Write keys and values to a topic, round-robin over partitions, and return their number."""
        return asyncio.run(_fill(self.bootstrap_servers, topic, records, partitions))


@contextlib.contextmanager
def running_broker() -> Iterator[Broker]:
    """Run Apache Kafka if Java and Maven are available, else the embedded broker, in a separate process."""
    with _cleaning_up(), tempfile.TemporaryDirectory(prefix="bench-kafka-") as directory:
        kafka = ApacheKafka(Path(directory))
        try:
            if _starts(kafka):
                yield Broker(kafka.bootstrap_servers, "Apache Kafka")
                return
        finally:
            kafka.stop()
    command = [*COMMAND, "broker", "--port", "0", "--json"]
    with running(command) as first_line:
        yield Broker(json.loads(first_line)["bootstrap_servers"], "embedded broker")


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[str]:
    """Run a server for a `with` block; yields its first output line."""
    with _cleaning_up():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None  # noqa: S101 - it was asked for above
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{' '.join(command)} ended with status {process.wait()} before it served")
            yield line
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOP_SECONDS)


def _starts(kafka: ApacheKafka) -> bool:
    try:
        kafka.start()
    except KafkaUnavailableError as error:
        print(f"Apache Kafka is not there, the embedded broker serves: {error}", file=sys.stderr)
        return False
    return True


@contextlib.contextmanager
def _cleaning_up() -> Iterator[None]:
    """Make SIGTERM run `finally` clauses, as SIGINT does, so that all servers end."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - the signature is Python's
    raise SystemExit(128 + number)


async def _fill(
    bootstrap_servers: str, topic: str, records: Iterable[tuple[bytes, bytes]], partitions: int
) -> int:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers,
        acks=1,
        max_batch_size=_BATCH_BYTES,
        max_request_size=_BATCH_BYTES * 2,
    )
    await producer.start()
    under_way: set[asyncio.Future[object]] = set()
    batches = [producer.create_batch() for _ in range(partitions)]
    count = 0
    try:
        for count, (key, value) in enumerate(records, start=1):
            place = count % partitions
            if batches[place].append(timestamp=_now(), key=key, value=value) is None:
                under_way.add(await producer.send_batch(batches[place], topic, partition=place))
                batches[place] = producer.create_batch()
                batches[place].append(timestamp=_now(), key=key, value=value)
                if len(under_way) >= _BATCHES_UNDER_WAY:
                    _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        for place, batch in enumerate(batches):
            if batch.record_count():
                under_way.add(await producer.send_batch(batch, topic, partition=place))
        await asyncio.gather(*under_way)
    finally:
        await producer.stop()
    return count


def _now() -> int:
    return int(time.time() * 1000)
