"""Runs Apache Kafka from its published artifacts: one node on free ports with its own data directory."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import socket
import string
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.integration.wire_client import WireClient, init_producer_id
from tests.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_RECIPE = Path(__file__).parent / "kafka-maven"
_TOOLS = {
    "kafka-acls.sh": "AclCommand",
    "kafka-consumer-groups.sh": "consumer.group.ConsumerGroupCommand",
    "kafka-topics.sh": "TopicCommand",
}
_CACHE = ROOT / ".cache" / "kafka"
_RESOLVE_SECONDS = 600.0
_FORMAT_SECONDS = 60.0
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_START_ATTEMPTS = 3
# Fast start and little memory: no node lives long enough for the optimising compiler.
_JAVA_OPTIONS = (
    "-Xms96m",
    "-Xmx320m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    f"-Dlog4j2.configurationFile={_RECIPE / 'log4j2.properties'}",
)


class KafkaUnavailableError(Exception):
    """Apache Kafka cannot be started; the message says what is missing."""


class ApacheKafka:
    """One Apache Kafka node. It can be stopped or killed and restarted; ports and data stay.

    Args:
        options: Further options of Java, and of the command that formats its storage.
        ports: For clients, detour, proxy and controller; by default free ones.
    """

    def __init__(
        self,
        directory: Path,
        *,
        listeners: Mapping[str, str] | None = None,
        properties: str = "",
        options: tuple[Sequence[str], Sequence[str]] = ((), ()),
        ports: Sequence[int] = (),
        cluster_id: str = "",
    ) -> None:
        self._settings = directory / "server.properties"
        self._data = directory / "data"
        self._log = directory / "kafka.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._listeners = listeners or {}
        self._properties = properties
        self._java_options, self._format_options = options
        self._given_ports = ports
        self._cluster_id = cluster_id or new_cluster_id()
        self._port = 0
        self.detour_port = 0
        """A second listener, which redirects its clients to `proxy_port`."""
        self.ports: dict[str, int] = {}
        self.proxy_port = 0
        """A free port for a proxy to `detour_port`, which then carries every connection of a client."""

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        java, jars = _java(), kafka_jars()
        if self._port:
            self._launch(java, jars)
            return
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._prepare(java, jars)
            try:
                self._launch(java, jars)
            except KafkaUnavailableError:  # another process may have taken a port in the meantime
                if attempt == _START_ATTEMPTS or "Address already in use" not in self.log_tail():
                    raise
            else:
                return

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        assert self.pid is not None, "it does not run"
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.pid is not None:
                os.kill(self.pid, signal.SIGCONT)

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def _prepare(self, java: str, jars: Path) -> None:
        ports = self._given_ports or free_ports(4 + len(self._listeners))
        self._port, self.detour_port, self.proxy_port, controller_port, *more = ports
        self.ports = dict(zip(self._listeners, more, strict=True))
        addresses = "".join(f",{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        shutil.rmtree(self._data, ignore_errors=True)
        template = string.Template((_RECIPE / "server.properties.template").read_text())
        filled = template.substitute(
            broker_port=self._port,
            detour_port=self.detour_port,
            proxy_port=self.proxy_port,
            controller_port=controller_port,
            log_directory=self._data.as_posix(),
            more_listeners=addresses,
            more_protocols="".join(f",{name}:{protocol}" for name, protocol in self._listeners.items()),
        )
        self._settings.write_text(filled + self._properties)
        format_storage = (*_command(java, jars, "kafka.tools.StorageTool"), "format", *self._format_options)
        _run(
            *format_storage, f"--cluster-id={self._cluster_id}", "--config", str(self._settings),
            seconds=_FORMAT_SECONDS,
        )  # fmt: skip

    def _launch(self, java: str, jars: Path) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_command(java, jars, "kafka.Kafka", self._java_options), str(self._settings)],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C ends it through the fixture, not twice
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.kill()
                what = "ended" if ended else f"did not answer within {_START_SECONDS:.0f} s"
                raise KafkaUnavailableError(f"Apache Kafka {what}; the end of its log:\n{self.log_tail()}")
            time.sleep(0.05)  # poll

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), WireClient(self.bootstrap_servers, timeout_seconds=5.0) as client:
            error, _ = init_producer_id(client)  # the last request to work after a start
            return error == 0
        return False

    def _end(self, first_signal: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, first_signal)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_SECONDS)


def kafka_jars() -> Path:
    """The directory with Kafka's jars; Maven downloads them at the first use."""
    recipe = _RECIPE / "pom.xml"
    # The directory depends on the recipe, so a changed version is downloaded again.
    jars = _CACHE / uuid.uuid5(uuid.NAMESPACE_OID, recipe.read_text()).hex
    copied = ("dependency:copy-dependencies", "-DincludeScope=runtime")
    return downloaded(jars, lambda folder: maven("--file", str(recipe), *copied, into=folder))


def downloaded(place: Path, download: Callable[[Path], object]) -> Path:
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with (place.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_dir():
                with tempfile.TemporaryDirectory(dir=place.parent) as incomplete:
                    download(filled := Path(incomplete, "filled"))
                    filled.rename(place)
    return place


def maven(*arguments: str, into: Path) -> None:
    command = (_program("mvn", "Maven (mvn)"), "--batch-mode", "--quiet", *arguments)
    _run(*command, f"-DoutputDirectory={into}", seconds=_RESOLVE_SECONDS)


def _run(*command: str, seconds: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        said = f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
        raise KafkaUnavailableError(f"{' '.join(command)} failed:\n{said}")


def write_tools(folder: Path) -> None:
    java, jars = _java(), kafka_jars()
    for name, main_class in _TOOLS.items():
        file = folder / name
        command = shlex.join(_command(java, jars, f"org.apache.kafka.tools.{main_class}"))
        file.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        file.chmod(0o755)


def _java() -> str:
    return _program("java", "Java 17 or newer (java)")


def _program(name: str, what: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise KafkaUnavailableError(
            f"the tests against Apache Kafka need {what} on the PATH and it is not there; "
            'install it, or leave these tests out with -m "not kafka" (as `make test` does)'
        )
    return found


def _command(java: str, jars: Path, main_class: str, options: Sequence[str] = ()) -> list[str]:
    return [java, *_JAVA_OPTIONS, *options, "-classpath", f"{jars}/*", main_class]


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def free_ports(count: int) -> list[int]:
    """Ports that are free now; all are held until all are known, so they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
