from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streams.cli.main import run
from tests.streams.cli.processes import judgestream

COMMANDS = [
    *("demo", "init", "worker", "health", "doctor", "judge", "map", "produce", "replay", "tail", "show"),
    *("explore", "incident", "review", "export", "broker", "offline-judge", "topics", "labels", "config"),
]


def call(*arguments: str) -> int:
    """Run the command in this process and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_help_groups_the_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--help` has four panels with each command once, and cuts nothing at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    assert call("--help") == 0
    text = capsys.readouterr().out
    panels = re.findall(r"╭─ (\w+) ─+╮\n(.*?)╰", text, re.DOTALL)
    assert [name for name, _ in panels] == ["Options", "Try", "Run", "Look", "Operate"]
    listed = [line.split()[1] for _, rows in panels[1:] for line in rows.splitlines() if line[2] != " "]
    assert sorted(listed) == sorted(COMMANDS)
    assert "…" not in text
    assert "..." not in text.replace("[ARGS]...", "")
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_that_it_takes(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help of a command ends with an example, whose options it has."""
    monkeypatch.setenv("COLUMNS", "200")
    call(command, "--help")
    text = capsys.readouterr().out
    example = text.rpartition("Example: ")[2].split()
    assert example[:2] == ["judgestream", command]
    words = [word for word in example if word.startswith("-")]
    inner = example[2:3] if example[2] in {"check", "agreement", "verdicts"} else []
    call(command, *inner, "--help")
    options = capsys.readouterr().out
    assert all(f" {word} " in options for word in words)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of a command exits with code 0 and shows its usage."""
    assert call(command, "--help") == 0
    assert f"Usage: judgestream {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("demo", ("--events", "--events-file", "--model", "--base-url", "--max-usd", "--json")),
        ("worker", ("--config", "--agents")),
        ("health", ("--config", "--ready", "--wait", "--timeout-seconds")),
        (
            "judge",
            ("--metric", "--prompt-pack", "--base-url", "--model", "--output", "--mode", "--concurrency"),
        ),
        ("map", ("--topic", "--config", "--format", "--json")),
        ("replay", ("--dead-letters", "--reason", "--topic", "--from", "--to", "--rate", "--yes", "--json")),
        ("produce", ("--topic", "--rate", "--bootstrap-servers", "--key-field")),
        ("tail", ("--topic", "--bootstrap-servers", "--from-beginning", "--json")),
        ("broker", ("--port", "--topic")),
        ("offline-judge", ("--port", "--latency-seconds")),
    ],
)
def test_options_are_those_of_the_contract(
    command: str,
    options: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The options that scripts rely on are present."""
    monkeypatch.setenv("COLUMNS", "200")
    call(command, "--help")
    shown = capsys.readouterr().out
    assert [option for option in options if option not in shown] == []


def test_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints name and number."""
    assert call("--version") == 0
    assert capsys.readouterr().out.startswith("judgestream 0.")


def test_without_a_command_it_shows_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """A call without a command is bad usage and prints the help."""
    assert call() == 2
    assert "Usage: judgestream" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("produce",), "Missing argument"),
        (("demo", "--events", "0"), "'--events' / '-n': must be greater than or equal to 1, got '0'"),
        (("demo", "--events", "many"), "unable to parse string as an integer, got 'many'"),
        (("tail", "--status", "x"), "'--status': 'x' is not one of 'scored', 'unscored', 'failed'; see"),
        (("demo", "--events-file", "/no/such/file"), "--events-file: cannot read /no/such/file"),
        (("demo", "--events-file", "empty.jsonl"), "has no events"),
        (("judge", "/no/such/file", "--metric", "coverage"), "cannot read /no/such/file"),
        (("judge", "f", "--metric", "mood"), "hallucinated_citation, got 'mood'"),
        (("judge", "f", "--metric", "tone", "--prompt-pack", "/no/such/pack.md"), "/no/such/pack.md"),
        (("judge", "f", "--metric", "coverage", "--mode", "guess"), "--mode"),
        (("produce", "f", "--rate", "0"), "--rate must be above 0"),
        (("produce", "/no/such/file"), "cannot read /no/such/file"),
        (("produce", "f", "--bootstrap-servers", "nonsense"), "--bootstrap-servers must be HOST:PORT"),
        (("tail", "--config", "/no/such/file"), "/no/such/file: cannot be read"),
        (("broker", "--topic", "qa.events"), "--topic must be NAME:PARTITIONS"),
        (("broker", "--topic", "qa.events:0"), "1 to 10000 partitions"),
        (("broker", "--topic", "a b:1"), "a b"),
        (("worker", "--config", "/no/such/file"), "/no/such/file: cannot be read"),
        (
            ("worker", "--config", "empty.yaml", "--agents", "intake,juge"),
            "--agents must name one or more of intake, judge, monitor",
        ),
        (("config", "check", "/no/such/file"), "/no/such/file: cannot be read"),
    ],
)
def test_bad_usage_is_named_without_a_traceback(
    arguments: tuple[str, ...],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Bad usage exits with code 2 and prints one error on standard error, nothing on standard output."""
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").write_text("\n\n")
    Path("empty.yaml").write_text("{}")
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert text in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


async def test_debug_shows_the_traceback() -> None:
    """--debug or JUDGESTREAM_DEBUG=1 prints the traceback of an error."""
    wrong = ("produce", "/no/such/file")
    assert "Traceback" in (await judgestream("--debug", *wrong)).err
    assert "Traceback" in (await judgestream(*wrong, env={"JUDGESTREAM_DEBUG": "1"})).err
    assert "Traceback" not in (await judgestream(*wrong)).err


async def test_help_imports_nothing_heavy() -> None:
    """`--help` imports none of the packages that are slow to import."""
    code = (
        "import sys\n"
        "from streams.cli.main import run\n"
        "try:\n    run(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'faust', 'aiokafka', 'openai', 'pydantic', 'aiohttp', 'rich.live'} & set(sys.modules)\n"
        "sys.exit(','.join(sorted(heavy)) or 0)\n"
    )
    import asyncio
    import sys

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, "")


async def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    """A full disk (here /dev/full) ends a command with the name of the file, not with an errno."""
    events = tmp_path / "events.jsonl"
    line = {"question": "Where?", "answer": "In Paris.", "reference": "In Paris."}
    events.write_text("".join(json.dumps(line | {"event_id": f"e{n}"}) + "\n" for n in range(20)))
    partial = tmp_path / "out.jsonl.partial"
    partial.symlink_to("/dev/full")
    output = ("--overwrite", "-o", str(tmp_path / "out.jsonl"))
    ended = await judgestream("judge", str(events), "--metric", "coverage", *output)
    assert ended.code == 1
    assert f"error: cannot write {partial}: the disk is full" in ended.err
