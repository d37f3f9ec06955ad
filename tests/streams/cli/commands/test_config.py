from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

from judge.metrics.registry import metric_names
from tests.streams.cli.conftest import Command
from tests.streams.cli.processes import Ended

GOOD = """
kafka: {bootstrap_servers: "kafka:9092"}
sampling:
  default_rate: 0.05
  rules: [{name: gold, when: {tenant: gold}, rate: 1.0}]
metrics: {coverage: {when: {has: [reference]}}, relevance: {when: {has: [context]}}}
judge:
  endpoints:
    - {name: primary, base_url: "http://judge:8000/v1", model: m1, max_in_flight: 8}
    - {name: spare, base_url: "http://b/v1", model: m-2, tokens_per_minute: 9000}
"""
BAD = """
kafka: {bootstrap_servers: nonsense}
samplin: {}
metrics: {coverage: {}}
judge: {endpoints: [{name: a, base_url: "http://127.0.0.1:1/v1", model: m}]}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


def test_check_says_what_would_run(good: Path, command: Command) -> None:
    """`config check` prints broker, topics, rates, metrics and endpoints in their order with their limits.

    Environment variables override the file, as in the worker; JUDGESTREAM_DEBUG is not a setting.
    """
    env = {"JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS": "elsewhere:9092", "JUDGESTREAM_DEBUG": "0"}
    ended = command("config", "check", good, "--no-ask", env=env)
    assert ended.code == 0
    for text in (
        "ok",
        "elsewhere:9092",
        "qa.events -> judge.tasks.coverage, judge.tasks.relevance",
        "100% of events with tenant=gold (gold)",
        "5% of other events",
        "primary: m1 at http://judge:8000/v1, at most 8 concurrent calls\n",
        "else spare: m-2 at http://b/v1, at most 9,000 tokens per minute\n",
    ):
        assert text in ended.out
    assert json.loads(command("config", "check", good, "--no-ask", "--json").out)["ok"] is True


def test_check_lists_every_problem(tmp_path: Path, command: Command) -> None:
    """`config check` lists both problems, suggests the correct name for a typo and exits with code 2."""
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD)
    ended = command("config", "check", bad)
    assert ended.code == 2
    for text in ("2 problems", "kafka.bootstrap_servers", "did you mean sampling?"):
        assert text in ended.err
    ended = command("config", "check", bad, "--json")
    outcome = json.loads(ended.out)
    assert (ended.code, outcome["ok"], len(outcome["problems"])) == (2, False, 2)


def test_show_masks_secrets(written: Callable[..., Path], command: Command) -> None:
    """`config show` prints all settings in force, without the password, as YAML and as JSON."""
    path = written(kafka={"security": {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "me"}})
    env = {"JUDGESTREAM_KAFKA__SECURITY__PASSWORD": "hunter2"}
    for form, read in (((), yaml.safe_load), (("--json",), json.loads)):
        ended = command("config", "show", path, *form, env=env)
        assert ended.code == 0
        assert "hunter2" not in ended.out
        shown = read(ended.out)
        assert shown["kafka"]["security"]["username"] == "me"
        assert shown["topics"]["events"] == "qa.events"


def test_schema_is_a_json_schema_that_takes_the_example(command: Command) -> None:
    """The printed JSON Schema accepts valid settings and refuses a misspelt name."""
    ended = command("config", "schema")
    assert ended.code == 0, ended.err
    schema = json.loads(ended.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(GOOD), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(BAD), schema)


def test_check_shows_what_a_pack_sends(tmp_path: Path, good: Path, command: Command) -> None:
    """Each turn of a pack is printed, filled in with a sample event, with its estimated tokens.

    A built-in prompt is shown by its estimated size alone. A missing pack is a problem of the settings.
    """
    pack = tmp_path / "tone.md"
    settings = yaml.safe_load(good.read_text())
    settings["metrics"] = {"coverage": {}, "tone": {"prompt_pack": str(pack), "score_range": [1, 5]}}
    good.write_text(yaml.safe_dump(settings))
    missing = command("config", "check", good)
    assert missing.code == 2
    assert "metrics.tone.prompt_pack" in missing.err
    pack.write_text("## System\nRate {it}.\n\n## User\nA: {{ item.output_text }}\n", "utf-8")
    out = command("config", "check", good, "--no-ask").out
    for text in ("coverage: about ", "estimated", "--- system, about ", "Rate {it}."):
        assert text in out
    assert "A: The Eiffel Tower stands in Paris." in out
    assert "You check how much of a known good answer" not in out
    told = json.loads(command("config", "check", good, "--no-ask", "--json").out)["prompts"]
    prompts = {prompt["metric"]: prompt for prompt in told}
    assert [message["role"] for message in prompts["tone"]["messages"]] == ["system", "user"]
    assert prompts["coverage"]["estimated_tokens"] > prompts["tone"]["estimated_tokens"] > 0


def test_the_built_in_prompts_are_printed(command: Command) -> None:
    """`config prompts` prints all prompts, or one as JSON with schema and hash."""
    out = command("config", "prompts").out
    shown = [line.split(",")[0] for line in out.splitlines() if line.startswith("# ")]
    assert shown == [f"# {name}" for name in metric_names()]
    (one,) = json.loads(command("config", "prompts", "relevance", "--json").out)
    assert (one["metric"], len(one["hash"])) == ("relevance", 12)
    assert "claim_span" in one["prompt"]
    assert "claims" in one["response_schema"]["properties"]


def test_check_fails_where_a_worker_would(written: Callable[..., Path], command: Command) -> None:
    """`config check` reports an unset variable and a paid endpoint without a budget together.

    `budget: none` satisfies it.
    """
    paid: dict[str, object] = {"name": "main", "base_url": "https://llm.example.com/v1", "model": "m"}
    paid["usd_per_million_tokens"] = {"input": 1, "output": 2}

    def check(**judge: object) -> Ended:
        return command("config", "check", written(metrics={"coverage": {}}, judge=judge), "--no-ask")

    ended = check(endpoints=[paid | {"api_key_env": "NO_SUCH_KEY"}])
    assert ended.code == 2
    for text in (
        "2 problems",
        "NO_SUCH_KEY",
        "judge.budget: is required, because m at https://llm.example.com/v1 is paid per token",
    ):
        assert text in ended.err
    assert check(endpoints=[paid], budget="none").code == 0
    ended = check(endpoints=[paid], budget={"unlimited": True, "usd_per_day": 1})
    assert ended.code == 2
    assert "judge.budget.unlimited: must be false beside usd_per_day" in ended.err
