"""`judgestream init`: its questions, the files that it writes, and that they are valid."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from schemas import QAEvent
from streams.settings.load import load_settings
from tests.places import ROOT
from tests.streams.cli.conftest import Command
from tests.streams.cli.processes import call
from tests.toolbox import run, tool

WAYS = {
    "defaults": (),
    "own-cluster": ("--kafka", "broker-1:9092,broker-2:9092", "--judge", "gpt-4.1-mini", "--with", "pages"),
    "near": ("--kafka", "localhost:9092", "--judge", "qwen3@http://127.0.0.1:11434/v1", "--with", "neither"),
    "near-judge": ("--judge", "qwen3@http://127.0.0.1:11434/v1", "--with", "reference"),
    "gateway": ("--judge", "our-model@https://llm.example.com/v1", "--usd-per-day", "3", "--rate", "0.2"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_it_writes_passes_config_check(way: str, tmp_path: Path, command: Command) -> None:
    assert command("init", tmp_path, "--yes", *WAYS[way]).code == 0
    command("config", "check", tmp_path / "settings.yaml", env={"OPENAI_API_KEY": "k"}).done()
    command("config", "test", tmp_path / "cases.yaml").done()
    settings = load_settings(tmp_path / "settings.yaml", {})
    event = QAEvent.model_validate_json((tmp_path / "events.jsonl").read_text())
    for metric in settings.metrics.values():
        assert all(getattr(event, field) for field in metric.when.has)


def test_a_paid_judge_comes_with_a_budget_and_a_small_share(tmp_path: Path) -> None:
    """A paid judge gets a budget in USD if its price is known, else in calls."""
    for way in ("own-cluster", "gateway"):
        call("init", str(tmp_path / way), "--yes", *WAYS[way])
    own, gateway = (load_settings(tmp_path / way / "settings.yaml", {}) for way in ("own-cluster", "gateway"))
    assert (own.judge.budget.usd_per_day, own.sampling.default_rate) == (5, 0.05)
    assert (own.kafka.start, own.topics.create) == ("latest", False)
    assert (gateway.judge.budget.usd_per_day, gateway.judge.budget.calls_per_day) == (None, 1000)
    assert gateway.sampling.default_rate == 0.2


def test_five_questions(tmp_path: Path, command: Command) -> None:
    asked = command("init", tmp_path, stdin=b"kafka:9092\nanswers\nreference\ngpt-4.1-mini\n7\n").done()
    assert asked.err.count("]:") == 5
    assert "in USD per day" in asked.err
    settings = load_settings(tmp_path / "settings.yaml", {})
    assert settings.kafka.bootstrap_servers == "kafka:9092"
    assert settings.topics.events == "answers"
    assert list(settings.metrics) == ["coverage"]
    assert settings.judge.budget.usd_per_day == 7


def test_standard_input_that_ends_early_is_an_error(tmp_path: Path, command: Command) -> None:
    command("init", tmp_path, stdin=b"\n").fails("add --yes for defaults")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["settings.yaml", "compose.yaml", "events.jsonl", "cases.yaml"])
def test_nothing_is_replaced(name: str, tmp_path: Path, command: Command) -> None:
    (tmp_path / name).write_text("mine")
    command("init", tmp_path, "--yes").fails(f"{tmp_path / name}: already exists, so nothing was written")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "mine")]


def test_the_compose_file_is_that_of_the_repository_in_small(tmp_path: Path) -> None:
    call("init", str(tmp_path), "--yes")
    files = (tmp_path / "compose.yaml", ROOT / "compose.yaml")
    made, full = (yaml.safe_load(file.read_text("utf-8"))["services"] for file in files)
    assert made["kafka"]["image"] == full["kafka"]["image"]
    assert all(port.startswith("127.0.0.1:") for one in made.values() for port in one.get("ports", ()))
    assert made["worker"]["volumes"] == ["./settings.yaml:/etc/judgestream/config.yaml:ro"]
    listeners = made["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    inside = made["worker"]["environment"]["JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS"]
    outside = load_settings(tmp_path / "settings.yaml", {}).kafka.bootstrap_servers
    assert {f"INSIDE://{inside}", f"HOST://{outside}"} == set(listeners)


@pytest.mark.tools
@pytest.mark.parametrize("way", WAYS)
def test_compose_reads_the_file(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    call("init", str(tmp_path), "--yes", *WAYS[way])
    assert "ok" in run(tool("composecheck"), tmp_path / "compose.yaml")
