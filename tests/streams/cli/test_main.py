from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from streams.cli.main import _COMMANDS, app
from tests.streams.cli.conftest import Command
from tests.streams.cli.processes import judgestream

CASES = Path(__file__).parent / "cases"
EXAMPLES = {name: example for rows in _COMMANDS.values() for name, _, example in rows}
FILES = {
    "f": "{}",
    "empty.jsonl": "\n\n",
    "empty.yaml": "{}",
    "judged.yaml": "metrics: {coverage: {}, length: {code: {json_valid: {}}}}\n",
    "tabs.yaml": "kafka:\n\tbootstrap_servers: kafka:9092\n",
    "unlimited.yaml": "judge: {budget: {unlimited: true}}\n",
    "zero.yaml": "telemetry: {port: 0}",
}
REFUSED = [line.split(" => ") for line in (CASES / "refused.txt").read_text().splitlines()[1:]]


def test_help_groups_the_commands(command: Command) -> None:
    text = command("--help", env={"COLUMNS": "80"}).out
    panels = re.findall(r"╭─ (\w+) ─+╮\n(.*?)╰", text, re.DOTALL)
    assert [name for name, _ in panels] == ["Options", "Try", "Run", "Look", "Operate"]
    listed = [line.split()[1] for _, rows in panels[1:] for line in rows.splitlines() if line[2] != " "]
    assert sorted(listed) == sorted(EXAMPLES)
    assert "…" not in text
    assert "..." not in text.replace("[ARGS]...", "")
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_command_has_an_example_that_it_takes(name: str, command: Command) -> None:
    shown = command(name, "--help").out
    assert f"Usage: judgestream {name}" in shown
    assert EXAMPLES[name] in " ".join(shown.split())
    group: Any = typer.main.get_command(app)
    own = getattr(group.commands[name], "commands", {}).values()
    for example in (EXAMPLES[name], *(one.epilog.removeprefix("Example: ") for one in own if one.epilog)):
        parser, words = group, shlex.split(example)
        while words and hasattr(parser, "commands"):
            parser, words = parser.commands[words[1]], words[1:]
        parser.make_context(name, words[1:])


@pytest.mark.parametrize(("name", "options"), json.loads((CASES / "options.json").read_text()).items())
def test_options_that_scripts_rely_on_are_there(name: str, options: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined] # a group
    assert not set(options.split()) - {option for one in command.params for option in one.opts}


def test_says_its_version_and_shows_help_without_a_command(command: Command) -> None:
    assert command("--version").out.startswith("judgestream 0.")
    assert command().code == 2
    assert "Usage: judgestream" in command().err


@pytest.mark.parametrize(("words", "text"), REFUSED, ids=[words for words, _ in REFUSED])
def test_bad_usage_is_named_without_a_traceback(
    words: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_text(content)
    ended = command(*words.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert text in ended.err
    for poor in ("Traceback", "error: Usage", "?;"):
        assert poor not in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_debug_shows_the_traceback(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ("produce", "/no/such/file")
    assert "Traceback" not in command(*wrong).err
    assert "Traceback" in command(*wrong, env={"JUDGESTREAM_DEBUG": "1"}).err
    monkeypatch.setenv("JUDGESTREAM_DEBUG", "0")  # so that it is reset
    assert "Traceback" in command("--debug", *wrong).err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from streams.cli.main import run\n"
        "try:\n    run(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'faust', 'aiokafka', 'openai', 'pydantic', 'aiohttp', 'rich.live'} & set(sys.modules)\n"
        "sys.exit(','.join(sorted(heavy)) or 0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


async def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    line = {"question": "Where?", "answer": "In Paris.", "reference": "In Paris."}
    events.write_text("".join(json.dumps(line | {"event_id": f"e{n}"}) + "\n" for n in range(20)))
    partial = tmp_path / "out.jsonl.partial"
    partial.symlink_to("/dev/full")
    output = ("--overwrite", "-o", str(tmp_path / "out.jsonl"))
    ended = await judgestream("judge", str(events), "--metric", "coverage", *output)
    ended.fails(f"error: cannot write {partial}: the disk is full", code=1)


def test_an_abort_leaves_a_stack() -> None:
    """A SIGABRT, as of a C extension, ends the process with the stack of each thread."""
    code = (
        "import os\nfrom streams.cli.running import run_until_stopped\n"
        "async def crash(stop): os.abort()\nrun_until_stopped(crash)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in ended.stderr
    assert "in crash" in ended.stderr
