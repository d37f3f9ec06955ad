"""The servers of a benchmark end with it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integration.deadlines import until
from tests.places import ROOT

# Background processes of a script ignore SIGINT; restore the handler of a terminal.
_AT_A_TERMINAL = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
_WITH_A_SERVER = """
import sys, time
from benchmarks.broker import running
with running([sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]) as pid:
    print(pid, end="", flush=True)
    time.sleep(600)
"""  # noqa: E501
_WITH_A_BROKER = """
import time
from benchmarks.broker import running_broker
with running_broker() as broker:
    print(broker.name, broker.bootstrap_servers, sep=",", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def _process(program: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program; yields it and its first line of output."""
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_A_TERMINAL + program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_servers(number: signal.Signals) -> None:
    with _process(_WITH_A_SERVER) as (process, pid):
        process.send_signal(number)
        assert process.wait(20) != 0

        def is_gone() -> bool:
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                return True
            return False

        await until(is_gone, "the server's end", deadline_seconds=20)


@pytest.mark.kafka
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_kafka(number: signal.Signals) -> None:
    """Apache Kafka, which runs in its own session, ends with the benchmark."""
    with _process(_WITH_A_BROKER) as (process, line):
        name, _, address = line.partition(",")
        assert name == "Apache Kafka"
        host, _, port = address.partition(":")
        socket.create_connection((host, int(port)), 5).close()
        process.send_signal(number)
        assert process.wait(30) != 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), 5)
