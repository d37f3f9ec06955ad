from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from judge.metrics.registry import metric_names
from tests.streams.cli.test_main import call

GOOD = """
kafka: {bootstrap_servers: "kafka:9092"}
sampling:
  default_rate: 0.05
  rules: [{name: gold, when: {tenant: gold}, rate: 1.0}]
metrics: {coverage: {when: {has: [reference]}}, relevance: {when: {has: [context]}}}
judge:
  endpoints: [{name: primary, base_url: "http://judge:8000/v1", model: m1, api_key_env: JUDGE_KEY}]
"""
BAD = """
kafka: {bootstrap_servers: nonsense}
samplin: {}
metrics: {coverage: {}}
judge: {endpoints: [{name: a, base_url: "http://127.0.0.1:1/v1", model: m}]}
"""


@pytest.fixture
def good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("JUDGE_KEY", "k")
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return str(path)


def test_check_says_what_would_run(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`config check` prints broker, topics, rates, metrics and endpoint."""
    assert call("config", "check", good) == 0
    out = capsys.readouterr().out
    for text in (
        "ok",
        "kafka:9092",
        "qa.events -> judge.tasks.coverage, judge.tasks.relevance",
        "100% of events with tenant=gold (gold)",
        "5% of other events",
        "primary: m1 at http://judge:8000/v1",
    ):
        assert text in out


def test_check_lists_every_problem(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`config check` lists both problems, suggests the correct name for a typo and exits with code 2."""
    assert call("config", "check", bad) == 2
    err = capsys.readouterr().err
    assert "2 problems" in err
    assert "kafka.bootstrap_servers" in err
    assert "did you mean sampling?" in err


def test_check_as_json(good: str, bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the outcome of valid and of invalid settings."""
    assert call("config", "check", good, "--json") == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert call("config", "check", bad, "--json") == 2
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["ok"] is False
    assert len(outcome["problems"]) == 2


def test_the_environment_counts(
    good: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment variables override the file, as in the worker; JUDGESTREAM_DEBUG is not a setting."""
    monkeypatch.setenv("JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS", "elsewhere:9092")
    monkeypatch.setenv("JUDGESTREAM_DEBUG", "0")
    assert call("config", "check", good) == 0
    assert "elsewhere:9092" in capsys.readouterr().out


def test_show_masks_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config show` prints all settings in force, without the password, as YAML and as JSON."""
    path = tmp_path / "secure.yaml"
    path.write_text("kafka: {security: {protocol: SASL_SSL, mechanism: PLAIN, username: me}}")
    monkeypatch.setenv("JUDGESTREAM_KAFKA__SECURITY__PASSWORD", "hunter2")
    for form, read in (((), yaml.safe_load), (("--json",), json.loads)):
        assert call("config", "show", str(path), *form) == 0
        out = capsys.readouterr().out
        assert "hunter2" not in out
        shown = read(out)
        assert shown["kafka"]["security"]["username"] == "me"
        assert shown["topics"]["events"] == "qa.events"


def test_schema_is_a_json_schema_that_takes_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    """The printed JSON Schema accepts valid settings and refuses a misspelt name."""
    assert call("config", "schema") == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(GOOD), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(BAD), schema)


def test_check_opens_prompt_packs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing prompt pack is a problem of the settings."""
    path = tmp_path / "packs.yaml"
    path.write_text("metrics: {tone: {prompt_pack: no-such-pack.md, score_range: [1, 5]}}")
    assert call("config", "check", str(path)) == 2
    assert "metrics.tone.prompt_pack" in capsys.readouterr().err


def test_check_names_endpoints_in_order_with_their_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The primary endpoint is printed first, then its fallback, each with its limits."""
    file = tmp_path / "settings.yaml"
    file.write_text(
        """
metrics: {coverage: {}}
judge:
  endpoints:
    - {name: primary, base_url: "http://a/v1", model: m-1, requests_per_minute: 6000, max_in_flight: 8}
    - {name: spare, base_url: "http://b/v1", model: m-2, tokens_per_minute: 10}
""",
        encoding="utf-8",
    )
    assert call("config", "check", str(file)) == 0
    out = capsys.readouterr().out
    assert "m-1 at http://a/v1, at most 8 concurrent calls, at most 6,000 requests per minute\n" in out
    assert "else spare: m-2 at http://b/v1, at most 10 tokens per minute\n" in out


def test_check_shows_what_a_pack_sends(tmp_path: Path, good: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each turn of a pack is printed, filled in with a sample event, with its estimated tokens.

    A built-in prompt is shown by its estimated size alone.
    """
    (tmp_path / "tone.md").write_text(
        "## System\nRate {it}.\n\n## User\nA: {{ item.output_text }}\n", "utf-8"
    )
    path = tmp_path / "settings.yaml"
    pack = f'metrics: {{coverage: {{}}, tone: {{prompt_pack: "{tmp_path}/tone.md", score_range: [1, 5]}}}}\n'
    settings = [line for line in Path(good).read_text().splitlines() if not line.startswith("metrics:")]
    path.write_text("\n".join([*settings, pack]))
    assert call("config", "check", str(path)) == 0
    out = capsys.readouterr().out
    assert "coverage: about " in out
    assert "estimated" in out
    assert "--- system, about " in out
    assert "Rate {it}." in out
    assert "A: The Eiffel Tower stands in Paris." in out
    assert "You check how much of a known good answer" not in out
    assert call("config", "check", str(path), "--json") == 0
    prompts = {prompt["metric"]: prompt for prompt in json.loads(capsys.readouterr().out)["prompts"]}
    assert [message["role"] for message in prompts["tone"]["messages"]] == ["system", "user"]
    assert prompts["coverage"]["estimated_tokens"] > prompts["tone"]["estimated_tokens"] > 0


def test_the_built_in_prompts_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`config prompts` prints all prompts, or one as JSON with schema and hash.

    An unknown name is a usage error.
    """
    assert call("config", "prompts") == 0
    out = capsys.readouterr().out
    shown = [line.split(",")[0] for line in out.splitlines() if line.startswith("# ")]
    assert shown == [f"# {name}" for name in metric_names()]
    assert call("config", "prompts", "relevance", "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["metric"], len(one["hash"])) == ("relevance", 12)
    assert "claim_span" in one["prompt"]
    assert "claims" in one["response_schema"]["properties"]
    assert call("config", "prompts", "mood") == 2
    assert "toxicity, got mood" in capsys.readouterr().err


def test_check_fails_where_a_worker_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`config check` reports an unset variable and a paid endpoint without a budget together.

    `budget: none` satisfies it.
    """
    path = tmp_path / "settings.yaml"
    text = """
metrics: {coverage: {}}
judge:
  endpoints: [{name: main, base_url: "https://llm.example.com/v1", model: m, api_key_env: NO_SUCH_KEY,
               usd_per_million_tokens: {input: 1, output: 2}}]
"""
    path.write_text(text)
    assert call("config", "check", str(path)) == 2
    err = capsys.readouterr().err
    assert "2 problems" in err
    assert "NO_SUCH_KEY" in err
    assert "judge.budget: is required, because m at https://llm.example.com/v1 is paid per token" in err
    path.write_text(text.replace(", api_key_env: NO_SUCH_KEY", "") + "  budget: none\n")
    assert call("config", "check", str(path)) == 0
    path.write_text(
        text.replace(", api_key_env: NO_SUCH_KEY", "") + "  budget: {unlimited: true, usd_per_day: 1}\n"
    )
    assert call("config", "check", str(path)) == 2
    assert "judge.budget.unlimited: must be false beside usd_per_day" in capsys.readouterr().err
