from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

from judge.metrics.registry import metric_names
from streams.settings.load import settings_schema
from streams.settings.problems import Renamed
from tests.streams.cli.conftest import Command

GOOD = """
kafka: {bootstrap_servers: "kafka:9092"}
sampling:
  default_rate: 0.05
  rules: [{name: gold, when: {tenant: gold}, rate: 1.0}, {name: free, when: {labels: {tier: free}}, rate: 1}]
metrics: {coverage: {when: {has: reference, app: support}}, relevance: {when: {labels: {app: [a, b]}}}}
judge:
  endpoints:
    - {name: primary, base_url: "http://judge:8000/v1", model: m1, max_in_flight: 8}
    - {name: spare, base_url: "http://b/v1", model: m-2, tokens_per_minute: 9000}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


def test_check_says_what_would_run(good: Path, command: Command) -> None:
    env = {"JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS": "elsewhere:9092", "JUDGESTREAM_DEBUG": "0"}
    ended = command("config", "check", good, env=env).done()
    for text in (
        "elsewhere:9092",
        "qa.events -> judge.tasks.coverage, judge.tasks.relevance",
        "100% of events with tenant=gold (gold)",
        "100% of events with tier=free (free)",
        "coverage: 100% of sampled events, with reference, with app=support",
        "relevance: 100% of sampled events, with app=a|b",
        "5% of other events",
        "primary: m1 at http://judge:8000/v1, at most 8 concurrent calls\n",
        "else spare: m-2 at http://b/v1, at most 9,000 tokens per minute\n",
    ):
        assert text in ended.out
    checked = json.loads(command("config", "check", good, "--json").out)
    assert (checked["ok"], checked["deprecated"]) == (True, [])
    good.write_text(GOOD.replace("sampling:", "sampling:\n  budget: {verdicts_per_day: 4_000}"))
    told = command("config", "check", good).out
    assert "up to 5% of other events" in told
    assert "sampling.budget pays for about 2,000 events a day with all metrics" in told


def test_all_faults_are_named_in_one_go(tmp_path: Path, command: Command) -> None:
    pack = "# System\nJudge.\n# User\n{{ item.question }} {{ item.output_text }}\n"
    (tmp_path / "pack.md").write_text(pack)
    many = tmp_path / "many.yaml"
    many.write_text(
        "sampling: {defult_rate: 0.1}\n"
        "topics: {events: qa, scores: qa}\n"
        "metrics: {tone: {prompt_pack: pack.md, score_range: [1, 5]}, mood: {}, rude: {prompt_pack: no.md}}\n"
        "judge: {endpoints: [{name: a, model: gpt-5, base_url: 'https://api.openai.com/v1', "
        "api_key_env: NOPE}]}\n"
    )
    ended = command("config", "check", many)
    first, *problems = ended.err.splitlines()
    assert (ended.code, first) == (2, f"error: 7 problems in the settings ({many}):")
    for path, words in {
        "sampling.defult_rate": "did you mean default_rate?",
        "topics.scores": "",
        "metrics.mood": "",
        "metrics.tone.prompt_pack": "unknown (did you mean {{ item.input }}?)",
        "metrics.rude.prompt_pack": "",
        "judge.endpoints (a).api_key_env": "the environment variable NOPE is not set or empty",
        "judge.budget": "is required, because gpt-5 at https://api.openai.com/v1 is paid",
    }.items():
        (line,) = [one for one in problems if one.startswith(f"  {path}")]
        assert words in line
    as_json = command("config", "check", many, "--json")
    told = json.loads(as_json.out)
    assert (as_json.code, told["ok"], len(told["problems"])) == (2, False, 7)


def test_show_masks_secrets(written: Callable[..., Path], command: Command) -> None:
    path = written(kafka={"security": {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "me"}})
    env = {"JUDGESTREAM_KAFKA__SECURITY__PASSWORD": "hunter2"}
    for form, read in (((), yaml.safe_load), (("--json",), json.loads)):
        ended = command("config", "show", path, *form, env=env).done()
        assert "hunter2" not in ended.out
        shown = read(ended.out)
        assert shown["kafka"]["security"]["username"] == "me"
        assert shown["topics"]["events"] == "qa.events"


def test_the_schema_is_printed(command: Command) -> None:
    schema = json.loads(command("config", "schema").out)
    assert schema == settings_schema()
    jsonschema.validate(yaml.safe_load(GOOD), schema)


def test_check_shows_what_a_pack_sends(tmp_path: Path, good: Path, command: Command) -> None:
    """A built-in prompt is shown by its estimated size alone. A missing pack is a problem of the settings."""
    pack = tmp_path / "tone.md"
    settings = yaml.safe_load(good.read_text())
    settings["metrics"] = {"coverage": {}, "tone": {"prompt_pack": str(pack), "score_range": [1, 5]}}
    good.write_text(yaml.safe_dump(settings))
    command("config", "check", good).fails("metrics.tone.prompt_pack")
    pack.write_text("## System\nRate {it}.\n\n## User\nA: {{ item.output_text }}\n", "utf-8")
    out = command("config", "check", good).out
    for text in ("coverage: about ", "estimated", "--- system, about ", "Rate {it}."):
        assert text in out
    assert "A: The Eiffel Tower stands in Paris." in out
    assert "You check how much of a known good answer" not in out
    told = json.loads(command("config", "check", good, "--json").out)["prompts"]
    prompts = {prompt["metric"]: prompt for prompt in told}
    assert [message["role"] for message in prompts["tone"]["messages"]] == ["system", "user"]
    assert prompts["coverage"]["estimated_tokens"] > prompts["tone"]["estimated_tokens"] > 0


def test_the_built_in_prompts_are_printed(command: Command) -> None:
    out = command("config", "prompts").out
    shown = [line.split(",")[0] for line in out.splitlines() if line.startswith("# ")]
    assert shown == [f"# {name}" for name in metric_names()]
    (one,) = json.loads(command("config", "prompts", "relevance", "--json").out)
    assert (one["metric"], len(one["hash"])) == ("relevance", 12)
    assert "claim_span" in one["prompt"]
    assert "claims" in one["response_schema"]["properties"]


def test_old_names_are_told_by_check_by_commands_and_in_the_log(
    good: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"kafka.group": Renamed("kafka.group", "kafka.group_id", "1.1", "1000.0")}
    monkeypatch.setattr("streams.settings.problems.former_settings", lambda: rows)
    monkeypatch.setattr("streams.worker.run.run_worker", lambda *_, **__: asyncio.sleep(0))
    old = GOOD.replace("kafka: {", "kafka: {group: old, ").replace("http://judge", "http://127.0.0.1")
    good.write_text(old)
    line = "DEPRECATED: kafka.group is called kafka.group_id since 1.1; rename it before 1000.0"
    ended = command("config", "check", good, "--json")
    assert (ended.code, json.loads(ended.out)["deprecated"]) == (0, [line])
    assert f"  deprecated {line}\n" in command("config", "check", good).out
    for words in (("worker", "--agents", "monitor"), ("show", "e1")):
        ended = command(*words, "--config", good)
        assert line in ended.err
        assert line not in ended.out
