"""The servers of a benchmark end with it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from tests.places import ROOT

# Background processes of a script ignore SIGINT; restore the handler of a terminal.
_AT_A_TERMINAL = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
_WITH_A_SERVER = """
from benchmarks.broker import running
server = "import socket, time; server = socket.create_server(('127.0.0.1', 0));"
server += "print(*server.getsockname(), sep=':', flush=True); time.sleep(600)"
with running([sys.executable, "-c", server]) as address:
    print(address.strip(), flush=True)
    time.sleep(600)
"""
_WITH_A_BROKER = """
from benchmarks.broker import running_broker
with running_broker() as broker:
    assert broker.name == "Apache Kafka"  # which runs in its own session
    print(broker.bootstrap_servers, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "program", [_WITH_A_SERVER, pytest.param(_WITH_A_BROKER, marks=pytest.mark.kafka)], ids=["any", "Kafka"]
)
def test_a_signal_ends_the_servers(program: str, number: signal.Signals) -> None:
    command = [sys.executable, "-c", _AT_A_TERMINAL + program]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().strip().partition(":")
            socket.create_connection((host, int(port)), 5).close()
            process.send_signal(number)
            assert process.wait(30) != 0
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(port)), 5)
        finally:
            process.kill()
