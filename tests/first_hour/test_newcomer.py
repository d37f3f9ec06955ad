"""A newcomer follows README from its first line: in a fresh clone, with an empty home and no judgestream.

Commands and their output are read from README; its ports are replaced by free ones. Packages come from the
folder of wheels that `.ci/tools` fills, so nothing is fetched here.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streams.demo.events import load_questions, make_record
from tests.first_hour.terminal import DEADLINE_SECONDS, Terminal
from tests.image.builder import copy_of_the_project
from tests.integration.kafka import ApacheKafka, free_ports
from tests.places import ROOT
from tests.toolbox import wheels

pytestmark = pytest.mark.timeout(900)


class Typed(NamedTuple):
    """A command without its prompt, and the lines shown under it: `...` is any text, or, alone, any lines."""

    command: str
    shown: tuple[str, ...]


def commands(page: Path, *, before: str) -> Iterator[Typed]:
    """Read the `console` blocks of a page up to a heading."""
    text = page.read_text(encoding="utf-8").partition(before)[0]
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            yield Typed(command, tuple(shown))


def shows(expected: tuple[str, ...], said: str) -> bool:
    """Whether the output is what the page shows, from the first to the last line."""
    parts = [
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"[ ]*\n"
        for line in expected
    ]
    return re.fullmatch("".join(parts), said.strip("\n") + "\n") is not None


README = tuple(commands(ROOT / "README.md", before="## Use it as a library"))
FIRST = ("make demo", "make test")
"""The first two commands stand alone."""
ELSEWHERE = ("make test", "docker compose up --detach")
"""`.ci/run` types the first in a fresh clone; the second needs a container engine."""
GOES_ON = ("judgestream broker ", "judgestream offline-judge ", "judgestream worker ", "judgestream tail ")
GOOD, WORSE = 350, 250
CONFIG = "--config settings.yaml"
MEAN_FELL = r"(coverage|relevance) of all answers( fell from|: [2-5]\.\d+ to [0-4]\.)"
WITH_A_MODEL = ("OPENAI_API_KEY=... judgestream demo", "judgestream demo --base-url")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    made = tmp_path / "judgestream"
    copy_of_the_project(made)
    return made


@pytest.fixture
def terminal(tmp_path: Path, clone: Path) -> Iterator[Terminal]:
    """A terminal in the clone; its Python is outside any environment, and pip finds only the wheels."""
    tools, home = tmp_path / "tools", tmp_path / "home"
    tools.mkdir()
    home.mkdir()
    (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    env = {"HOME": str(home), "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    with contextlib.closing(
        Terminal(clone, env | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels())})
    ) as made:
        yield made


def test_the_first_two_commands_stand_alone() -> None:
    assert tuple(typed.command for typed in README[:2]) == FIRST
    assert "make test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert len(README) >= 18


@pytest.mark.tools
def test_from_a_clone_to_an_export(terminal: Terminal, clone: Path) -> None:
    """Every command of README works as printed; then a drop is alerted, explained, reviewed and exported."""
    kafka, judge, port, model, review = free_ports(5)
    follow(terminal, clone, {"29092": kafka, "8000": judge, "8080": port, "11434": model})
    from_alert_to_export(terminal, clone / "first", review)


@pytest.mark.tools
def test_from_a_clone_to_a_verdict_with_apache_kafka(terminal: Terminal, clone: Path, tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    with ApacheKafka(tmp_path / "kafka") as kafka:
        judge, port = free_ports(2)
        broker = int(kafka.bootstrap_servers.rpartition(":")[2])
        ports = {"29092": broker, "8000": judge, "8080": port}
        follow(terminal, clone, ports, skipped=("judgestream broker ", "make demo", *WITH_A_MODEL))


def follow(terminal: Terminal, clone: Path, ports: dict[str, int], *, skipped: tuple[str, ...] = ()) -> None:
    for typed in README:
        command = _at(typed.command, ports)
        shown = tuple(_at(line, ports) for line in typed.shown)
        if typed.command in ELSEWHERE or (skipped and typed.command.startswith(skipped)):
            continue
        if typed.command == "make demo":
            _watch(terminal, command)
        elif typed.command.startswith(WITH_A_MODEL):
            _with_a_model(terminal, command, ports["11434"])
        elif command.startswith(GOES_ON):
            log = terminal.type_beside(command)
            lines = (re.escape(line).replace(r"\.\.\.", ".*") for line in shown)
            until(log.read_text, *(f"^{line}" for line in lines))
        else:
            code, said = terminal.type(command)
            assert code == 0, f"{command}: {said}"
            assert not shown or shows(shown, said), f"{command} shows, unlike README:\n{said}"
        if typed.command.startswith("judgestream init"):
            settings = clone / "first" / "settings.yaml"
            settings.write_text(_at(settings.read_text(encoding="utf-8"), ports), encoding="utf-8")


def _watch(terminal: Terminal, command: str) -> None:
    """Run a demo without an end until it shows both means, then press Ctrl-C: it ends with a summary."""
    log = terminal.type_beside(command)
    until(log.read_text, r"coverage \d.*relevance \d")
    assert terminal.interrupt() in {0, 130}, log.read_text()
    assert re.search(r"results scored +[1-9]", log.read_text()), log.read_text()
    assert "Traceback" not in log.read_text()


def _with_a_model(terminal: Terminal, command: str, port: int) -> None:
    """Run a line with a key and a model; an endpoint on this machine stands for theirs."""
    if command.startswith("OPENAI_API_KEY"):
        log = terminal.type_beside(f"judgestream offline-judge --port {port}")
        until(log.read_text, f":{port}")
        terminal.type(f"export OPENAI_BASE_URL=http://127.0.0.1:{port}/v1")
    said = terminal.type_beside(command)
    until(said.read_text, r"coverage \d|accounted for")
    terminal.interrupt()
    assert re.search(r"results scored +[1-9]", said.read_text()), said.read_text()
    assert re.search(r"\$0\.50 \(--max-usd\)|[\d,]+ tokens", said.read_text()), "its limit is printed"
    if not command.startswith("OPENAI_API_KEY"):
        terminal.type("unset OPENAI_BASE_URL")


def until(said: Callable[[], str], *patterns: str) -> None:
    """Wait until an output has each pattern, in any order."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not all(re.search(one, said(), re.MULTILINE) for one in patterns):
        assert time.monotonic() < deadline, said()
        time.sleep(0.2)


def _at(text: str, ports: dict[str, int]) -> str:
    for printed, free in ports.items():
        text = text.replace(printed, str(free))
    return text


def from_alert_to_export(terminal: Terminal, folder: Path, port: int) -> None:
    """Go on where README ends: its worker, broker and judge are running in `folder`."""

    def typed(command: str) -> str:
        code, said = terminal.type(f"judgestream {command}")
        assert code == 0, f"{command}: {said}"
        return said

    questions, now = load_questions(), datetime.now(UTC)
    records = (make_record(questions, n, worse=n >= GOOD, occurred_at=now) for n in range(GOOD + WORSE))
    (folder / "traffic.jsonl").write_bytes(b"".join(record.value + b"\n" for record in records))
    terminal.type_beside(f"JUDGESTREAM_TELEMETRY__PORT=0 judgestream worker {CONFIG} --agents store")
    alerts = terminal.type_beside(f"judgestream tail --topic qa.alerts --from-beginning {CONFIG}")
    typed(f"produce traffic.jsonl {CONFIG}")
    # A mean that fell or a share of bad answers that rose: whichever alarm comes first leads the incident.
    # The mean's fall is then a part of it.
    until(alerts.read_text, r" INCIDENT .* (fell|rose) from ", MEAN_FELL)
    report = f"judgestream incident latest {CONFIG}"
    until(lambda: terminal.type(report)[1], "prompt_version=v8", "Worst answers since", "  Q: ", "  A: ")
    assert typed(f"incident latest {CONFIG}").startswith("#")

    review = terminal.type_beside(f"judgestream review {CONFIG} --port {port} --who ada")
    until(review.read_text, f":{port}")
    labelled = _label_one(port)
    until(lambda: terminal.type(f"judgestream labels agreement {CONFIG}")[1], "1 label")

    rows = list(csv.DictReader(io.StringIO(typed(f"export {CONFIG} --since 1d --format csv"))))
    assert len(rows) >= GOOD + WORSE
    assert [row["human_who"] for row in rows if row["result_id"] == labelled] == ["ada"]


def _label_one(port: int) -> str:
    """Say "4" to the first answer of the queue, as the page does; returns its result id."""
    queue = _answer(port, "GET", "/review/api/queue?kind=random&size=1", None, {})
    chosen = str(queue["tasks"][0]["result_id"])
    headers = {"Content-Type": "application/json", "X-Review-Token": queue["token"]}
    sent = json.dumps({"result_id": chosen, "score": 4})
    assert _answer(port, "POST", "/review/api/label", sent, headers)["label_id"]
    return chosen


def _answer(port: int, method: str, path: str, body: str | None, headers: dict[str, str]) -> Any:
    connection = HTTPConnection("127.0.0.1", port)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        return json.load(connection.getresponse())
