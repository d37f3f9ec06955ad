"""Common mistakes, each with an error that names the remedy."""

from __future__ import annotations

import os
from pathlib import Path

import jsonschema
import pytest
import yaml

from streams.settings import settings_schema
from tests.streams.cli.processes import call

JUDGE = 'judge: {budget: none, endpoints: [{name: a, base_url: "http://127.0.0.1:1/v1", model: m}]}\n'
METRICS = "metrics: {coverage: {}}\n"
FILES = {
    "tabs.yaml": "kafka:\n\tbootstrap_servers: kafka:9092\n",
    "five.yaml": f"sampling: {{default_rate: 5}}\n{METRICS}{JUDGE}",
    "percent.yaml": f"sampling: {{default_rate: 5%}}\n{METRICS}{JUDGE}",
    "has.yaml": f"metrics: {{coverage: {{when: {{hs: [reference]}}}}}}\n{JUDGE}",
    "rule.yaml": f"sampling: {{rules: [{{name: x, when: {{has: [context]}}, rate: 1}}]}}\n{METRICS}{JUDGE}",
    "start.yaml": f"kafka: {{start: yesterday}}\n{METRICS}{JUDGE}",
    "broker.yaml": f'kafka: {{bootstrap_servers: "https://kafka:9092"}}\n{METRICS}{JUDGE}',
    "empty.yaml": "",
    "key.yaml": METRICS
    + (
        'judge: {endpoints: [{name: p, base_url: "https://api.openai.com/v1", model: gpt-4.1-mini, '
        "api_key_env: NO_SUCH_KEY}]}\n"
    ),
    "pack.md": "# System\nJudge tone.\n# User\n{{ item.question }} {{ item.output_text }}\n",
    "pack.yaml": f"metrics: {{tone: {{prompt_pack: pack.md, score_range: [1, 5]}}}}\n{JUDGE}",
    "events.jsonl": '{"event_id": "1", "question": "q", "answer": "a", "reference": "r"}\n',
    "array.jsonl": '[{"question": "q", "answer": "a", "reference": "r"}]\n',
    "table.jsonl": "question,answer,reference\nq,a,r\n",
    "bad.jsonl": "not json\nnor this\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "JUDGESTREAM_"))]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        ("config check tabs.yaml", 2, "line 2, column 1: there is a tab; YAML is indented with spaces"),
        ("config check five.yaml", 2, "must be a share from 0 to 1 (got 5); for 5% write 0.05"),
        ("config check percent.yaml", 2, "must be a share from 0 to 1 (got '5%'); for 5% write 0.05"),
        ("config check has.yaml", 2, "metrics.coverage.when.hs is not a setting; did you mean has?"),
        (
            "config check rule.yaml",
            2,
            "matches labels only (got a mapping); use has under metrics.<name>.when",
        ),
        (
            "config check start.yaml",
            2,
            "kafka.start: must be latest, earliest or a time with its zone (got 'yest",
        ),
        (
            "config check broker.yaml",
            2,
            "must be host:port without http:// or the like (got 'https://kafka:9092')",
        ),
        ("config check empty.yaml", 2, "metrics: is required (got nothing); add a metric"),
        (
            "worker --config empty.yaml",
            2,
            "judge.endpoints: names no endpoint; add one, or set OPENAI_API_KEY",
        ),
        ("config check key.yaml", 2, "the environment variable NO_SUCH_KEY is not set or empty"),
        (
            "config check key.yaml",
            2,
            "judge.budget: is required, because gpt-4.1-mini at https://api.openai.com/v1 is paid",
        ),
        (
            "config check pack.yaml",
            2,
            "the placeholder {{ item.question }} is unknown (did you mean {{ item.input }}?)",
        ),
        ("config check no.yaml", 2, "no.yaml: cannot be read (No such file or directory); check the path"),
        ("config check five.yml", 2, "(No such file or directory); did you mean five.yaml?"),
        ("config", 2, "Usage: judgestream config"),
        ("wroker --config five.yaml", 2, "No such command 'wroker'. Did you mean 'worker'"),
        ("judge events.jsonl -m coverage -o events.jsonl", 2, "--output events.jsonl: is the input file"),
        ("judge events.jsonl -m coverage -o table.jsonl", 2, "add --resume to continue it, or --overwrite"),
        ("judge array.jsonl -m coverage", 2, "is a JSON array, not JSON lines; add --format json"),
        ("judge table.jsonl -m coverage", 2, "a CSV header; add --format csv"),
        ("judge bad.jsonl -m coverage", 1, "line 1"),
        ("judge no.jsonl -m coverage", 2, "cannot read no.jsonl: No such file or directory"),
        ("judge events.jsonl -m coverge", 2, "--metric must be one of coverage, relevance,"),
        ("map", 2, "use either FILE or --topic; for example: judgestream map events.jsonl"),
        ("health", 1, "if the worker listens elsewhere, name its settings (--config FILE)"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_mistake_is_named_with_its_remedy(
    typed: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the mistake and its remedy, without a traceback or a help text."""
    assert call(*typed.split()) == code
    said = capsys.readouterr()
    assert words in said.err
    for poor in ("Traceback", "error: Usage", "?;"):
        assert poor not in said.err


def test_both_forms_of_when_are_taken_in_both_places(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules and metrics accept labels flat and under `labels`; a single field needs no list."""
    (folder / "when.yaml").write_text(
        "sampling: {rules: [{name: flat, when: {tier: gold}, rate: 1},"
        " {name: nested, when: {labels: {tier: free}}, rate: 1}]}\n"
        "metrics: {coverage: {when: {has: reference, app: support}}, relevance: {when: {labels: {app: "
        "[a, b]}}}}\n" + JUDGE
    )
    jsonschema.validate(yaml.safe_load((folder / "when.yaml").read_text()), settings_schema())
    assert call("config", "check", "when.yaml") == 0
    out = capsys.readouterr().out
    for line in (
        "100% of events with tier=gold (flat)",
        "100% of events with tier=free (nested)",
        "coverage: 100% of sampled events, with reference, with app=support",
        "relevance: 100% of sampled events, with app=a|b",
    ):
        assert line in out


def test_all_faults_are_named_in_one_go(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One run reports every fault: names, rates, sections, packs, secrets and budget."""
    (folder / "many.yaml").write_text(
        "sampling: {defult_rate: 0.1}\n"
        "topics: {events: qa, scores: qa}\n"
        "metrics: {tone: {prompt_pack: pack.md, score_range: [1, 5]}, mood: {}, rude: {prompt_pack: no.md}}\n"
        "judge: {endpoints: [{name: a, model: gpt-5, base_url: 'https://api.openai.com/v1', "
        "api_key_env: NOPE}]}\n"
    )
    assert call("config", "check", "many.yaml") == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: 7 problems in the settings (many.yaml):"
    for path in (
        "sampling.defult_rate",
        "topics.scores",
        "metrics.mood",
        "metrics.tone.prompt_pack",
        "metrics.rude.prompt_pack",
        "judge.endpoints (a).api_key_env",
        "judge.budget",
    ):
        assert len([line for line in lines if line.startswith(f"  {path}")]) == 1, path


def test_an_invalid_pack_is_reported_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A metric with an invalid pack is reported once."""
    (folder / "one.yaml").write_text(f"metrics: {{tone: {{prompt_pack: [x], score_range: [1, 5]}}}}\n{JUDGE}")
    assert call("config", "check", "one.yaml") == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: 1 problem in the settings (one.yaml):",
        "  metrics.tone.prompt_pack: must be a path (got a list); write a path",
    ]
