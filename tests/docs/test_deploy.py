"""The settings, commands and files of docs/deploy.md, docs/upgrading.md and the systemd unit are valid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.cli.main import run as judgestream
from streams.kafka.topics.table import TOPICS
from streams.settings.load import load_settings
from streams.settings.tree import Settings
from streams.worker.run import CLOSE_SECONDS, stop_seconds
from tests.places import ROOT
from tests.toolbox import run, tool

DEPLOY = ROOT / "docs" / "deploy.md"
PAGES = (DEPLOY, ROOT / "docs" / "scaling.md", ROOT / "docs" / "upgrading.md")
UNIT = ROOT / "deploy" / "systemd" / "judgestream.service"


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def documents(heading: str) -> list[dict[str, Any]]:
    """The YAML blocks of docs/deploy.md that start with this comment."""
    found = [yaml.safe_load(block) for block in blocks(DEPLOY, "yaml") if block.startswith(f"# {heading}\n")]
    assert found, heading
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_these_options(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every `judgestream COMMAND --option` of the pages exists."""
    for line in re.findall(
        r"judgestream ((?:[a-z][\w.-]* ?|--?[a-z-]+ ?|[A-Z/][\w/.]* ?)+)", page.read_text(encoding="utf-8")
    ):
        words = line.split()
        command = [words[0], words[1]] if words[0] == "config" else words[:1]
        if command[0] not in {"health", "topics", "doctor", "judge", "worker", "config"} or words[1:2] == [
            "before"
        ]:
            continue
        with pytest.raises(SystemExit) as ended:
            judgestream([*command, "--help"])
        assert ended.value.code == 0, line
        shown = capsys.readouterr().out
        for option in re.findall(r"--[a-z-]+", line):
            assert option in shown, line


def test_the_cases_for_ci_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of the section pass on its files, without a key; with another rate two cases fail."""
    monkeypatch.chdir(tmp_path)
    for name in ("cases.yaml", "settings.yaml"):
        (text,) = (block for block in blocks(DEPLOY, "yaml") if block.startswith(f"# {name}\n"))
        Path(name).write_text(text)
    commands = [line.split()[2:] for line in blocks(DEPLOY, "console") for line in line.splitlines()]
    shown = [words for words in commands if words[:1] == ["config"] and words[1] in ("check", "test")]
    assert [words[1] for words in shown] == ["check", "test"]
    for words in shown:
        with pytest.raises(SystemExit) as ended:
            judgestream(words)
        assert ended.value.code == 0, capsys.readouterr()
    Path("settings.yaml").write_text(
        Path("settings.yaml").read_text().replace("default_rate: 0.1", "default_rate: 0.2")
    )
    with pytest.raises(SystemExit) as ended:
        judgestream(["config", "test", "cases.yaml"])
    assert ended.value.code == 1
    assert "probability: expected 0.1, found 0.2" in capsys.readouterr().out


def test_targets_of_make_exist() -> None:
    """Every `make TARGET` of the pages exists."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"(?:\$ |`)make ([a-z-]+)", page.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_topics_are_kept_as_long_as_the_table_says() -> None:
    """The retention column of the table has the defaults."""
    rows = re.findall(
        r"^\| `([\w.<>-]+)` \|.*?\| (\d+) h \|", DEPLOY.read_text(encoding="utf-8"), re.MULTILINE
    )
    topics = Settings().topics
    kept = {name: kind.keep_hours for kind in TOPICS for name in kind.names(topics, ["<metric>"])}
    assert {name: int(hours) for name, hours in rows}.items() <= kept.items()
    assert len(rows) == 6


def test_the_settings_are_valid(tmp_path: Path) -> None:
    """The settings of the page and of its chart values are valid."""
    settings = [
        *documents("/etc/judgestream/config.yaml"),
        *(one["config"] for one in documents("values.yaml")),
    ]
    for number, document in enumerate(settings):
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(document))
        load_settings(tmp_path / f"{number}.yaml", {})


def test_the_unit_fits_the_program_and_the_page() -> None:
    """The unit has the paths of the page, stops later than a worker needs, and ends on invalid settings."""
    lines = [line for line in UNIT.read_text(encoding="utf-8").splitlines() if re.match(r"\w+=", line)]
    unit = dict(line.split("=", 1) for line in lines)
    assert (
        unit["ExecStart"] == "/opt/judgestream/bin/judgestream worker --config /etc/judgestream/config.yaml"
    )
    assert unit["RestartPreventExitStatus"] == "2"
    assert int(unit["TimeoutStopSec"]) > stop_seconds(Settings()) + CLOSE_SECONDS
    (document,) = documents("/etc/judgestream/config.yaml")
    credential, source = unit["LoadCredential"].split(":")
    key = document["judge"]["endpoints"][0]["api_key_file"]
    assert key == f"/run/credentials/{UNIT.name}/{credential}"
    assert source in DEPLOY.read_text(encoding="utf-8")
    assert document["judge"]["cache"]["file"].startswith(f"/var/cache/{unit['CacheDirectory']}/")


def _unit_here(folder: Path, *, change: tuple[str, str] = ("", "")) -> Path:
    """The unit with a program of this machine."""
    text = re.sub(
        r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    copy = folder / UNIT.name
    copy.write_text(text.replace(*change) if change[0] else text, encoding="utf-8")
    return copy


@pytest.mark.tools
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """The tool systemd-analyze verifies the unit without a warning."""
    assert run(tool("systemd-analyze"), "verify", "--man=no", _unit_here(tmp_path)) == ""


@pytest.mark.tools
def test_systemd_objects_to_a_misspelt_key(tmp_path: Path) -> None:
    """The tool systemd-analyze warns of a misspelt key."""
    unit = _unit_here(tmp_path, change=("ProtectSystem=", "ProtectSystm="))
    assert "Unknown key 'ProtectSystm'" in run(tool("systemd-analyze"), "verify", "--man=no", unit)


@pytest.mark.tools
def test_the_unit_has_the_documented_exposure(tmp_path: Path) -> None:
    """The tool systemd-analyze rates the exposure as the page says, at most 1.2 of 10."""
    said = run(
        tool("systemd-analyze"),
        "security",
        "--no-pager",
        "--offline=true",
        "--threshold=12",
        _unit_here(tmp_path),
    )
    level = re.search(r"exposure level for judgestream.service: ([\d.]+)", said)
    assert level is not None, said
    assert f"says {level[1]} of 10" in " ".join(DEPLOY.read_text(encoding="utf-8").split())
