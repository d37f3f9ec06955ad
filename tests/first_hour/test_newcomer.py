"""A newcomer follows README in an empty folder with the built wheel.

Commands and their output are read from README; its ports are replaced by free ones.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.first_hour.page import Typed, commands, shows, shows_each
from tests.first_hour.terminal import DEADLINE_SECONDS, Terminal
from tests.integration.kafka import ApacheKafka, free_ports
from tests.places import ROOT
from tests.toolbox import run

pytestmark = pytest.mark.timeout(600)
README = tuple(commands(ROOT / "README.md", before="## Use it as a library"))
NOT_TYPED = (
    "OPENAI_API_KEY=... OPENAI_MODEL=gpt-4.1-mini judgestream demo",
    "OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=qwen3 judgestream demo   # Ollama, vLLM",
    "docker compose up --detach",
)
"""Commands that need a key, a model or a container engine; other tests cover them."""
GOES_ON = ("judgestream broker ", "judgestream offline-judge ", "judgestream worker ")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as in README."""
    folder = tmp_path_factory.mktemp("wheels")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    return folder


@pytest.fixture
def terminal(tmp_path: Path, wheels: Path) -> Iterator[Terminal]:
    """An empty folder with Python and without judgestream; `pip install` finds only the wheel."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    empty = tmp_path / "empty"
    empty.mkdir()
    opened = Terminal(
        empty,
        {
            "HOME": str(empty),
            "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_NO_DEPS": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        },
    )
    try:
        yield opened
    finally:
        opened.close()


def test_every_other_command_is_typed() -> None:
    """Every other command of README is typed."""
    assert {typed.command for typed in README} >= set(NOT_TYPED)
    assert len(README) - len(NOT_TYPED) >= 12


@pytest.mark.tools
def test_from_nothing_to_a_verdict_with_the_embedded_broker(terminal: Terminal, tmp_path: Path) -> None:
    """Every command works as printed and shows what README shows."""
    kafka, judge, port = free_ports(3)
    follow(terminal, tmp_path / "empty", {"29092": kafka, "8000": judge, "8080": port})


@pytest.mark.kafka
def test_from_nothing_to_a_verdict_with_apache_kafka(terminal: Terminal, tmp_path: Path) -> None:
    """The same on a running Apache Kafka."""
    (tmp_path / "kafka").mkdir()
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.start()
    try:
        judge, port = free_ports(2)
        broker = int(kafka.bootstrap_servers.rpartition(":")[2])
        ports = {"29092": broker, "8000": judge, "8080": port}
        follow(terminal, tmp_path / "empty", ports, runs_already=("judgestream broker ",))
    finally:
        kafka.stop()


def follow(
    terminal: Terminal, folder: Path, ports: dict[str, int], *, runs_already: tuple[str, ...] = ()
) -> None:
    """Type the commands of README and compare their output."""
    for typed in README:
        if typed.command in NOT_TYPED or (runs_already and typed.command.startswith(runs_already)):
            continue
        one = Typed(_at(typed.command, ports), tuple(_at(line, ports) for line in typed.shown))
        if one.command.startswith(GOES_ON):
            terminal.type_beside(one.command)
        elif one.command.startswith("judgestream tail "):
            log = terminal.type_beside(one.command)
            until(lambda one=one, log=log: shows_each(one.shown, log.read_text()), log.read_text)  # type: ignore[misc]
        elif "--ready" in one.command:
            until(lambda one=one: terminal.type(one.command) == (0, "\n".join(one.shown) + "\n"), str)  # type: ignore[misc]
        else:
            code, said = terminal.type(one.command)
            assert code == 0, f"{one.command}: {said}"
            assert not one.shown or shows(one.shown, said), f"{one.command} shows, unlike README:\n{said}"
        if one.command.startswith("pip install"):
            _add_dependencies(folder)
        if one.command.startswith("judgestream init"):
            _move_ports(folder / "first" / "settings.yaml", ports)


def until(holds: Callable[[], bool], said: Callable[[], str]) -> None:
    """Poll a condition."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, said()
        time.sleep(0.2)


def _at(text: str, ports: dict[str, int]) -> str:
    for printed, free in ports.items():
        text = text.replace(printed, str(free))
    return text


def _move_ports(settings: Path, ports: dict[str, int]) -> None:
    settings.write_text(_at(settings.read_text(encoding="utf-8"), ports), encoding="utf-8")


def _add_dependencies(folder: Path) -> None:
    """Make the pinned packages of this environment importable, instead of downloading them.

    The project itself is excluded: the file with the path of its clone is not read from there.
    """
    (packages,) = (folder / "judging" / "lib").glob("python*/site-packages")
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "dependencies.pth").write_text(f"{ours}{os.linesep}", encoding="utf-8")
