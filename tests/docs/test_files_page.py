"""The commands of docs/files.md work as they stand, in their order."""

# ruff: noqa: ASYNC230, ASYNC240 - files of a test are small

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.streams.cli.processes import judgestream

BLOCKS = re.findall(
    r"```(\w+)\n(.*?)```", (ROOT / "docs" / "files.md").read_text(encoding="utf-8"), re.DOTALL
)


async def test_the_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command ends with exit code 0 and writes its files; the limit for CI stops a worse mean."""
    monkeypatch.chdir(tmp_path)
    answers, people = (text for kind, text in BLOCKS if kind == "csv")
    Path("answers.csv").write_text(answers)
    Path("people.csv").write_text(people)
    Path("columns.yaml").write_text(next(text for kind, text in BLOCKS if kind == "yaml"))
    shown = "".join(text for kind, text in BLOCKS if kind == "console").replace("\\\n", "")
    commands = shown.splitlines()
    said = ""
    for command in commands:
        _, *words = shlex.split(command.removeprefix("$ "))
        ended = await judgestream(*words)
        assert ended.code == 0, (command, ended.err)
        said += ended.err
    with Path("results.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [(row["event_id"], row["question"], row["labels.model"]) for row in rows][:1] == [
        ("1", "Where is the key?", "a")
    ]
    assert "missing: The shop opens at nine" in rows[1]["reason"]
    assert {"report.html", "both.html"} <= {path.name for path in tmp_path.iterdir()}
    assert "of 3 labels equal the judge's score, kappa" in said
    assert "over 3 events scored in both runs" in said
    limit = shlex.split(commands[-1].removeprefix("$ ").replace("coverage=2", "coverage=4.9"))
    ended = await judgestream(*limit[1:], "--overwrite")
    assert ended.code == 1
    assert "--fail-under coverage=4.9: the mean is" in ended.err
