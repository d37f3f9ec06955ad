"""`judgestream config`: what it says of settings, and its tests of them, which are cases of a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from judge.metrics.registry import metric_names
from streams.settings.load import settings_schema
from streams.settings.problems import Renamed
from tests.streams.cli.conftest import Command
from tests.streams.cli.processes import Ended
from tests.streams.intake.reading.otlp.building import request, span

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


CASES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "cases" / "config_test.yaml").read_text("utf-8")
)
SETTINGS, RECORD = CASES["settings"], CASES["record"]
MODEL = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "12 hours"}
CHAIN = {"openinference.span.kind": "CHAIN", "input.value": "How long?"}


@pytest.fixture
def run(tmp_path: Path, command: Command) -> Any:
    """A function that tests settings with cases, given as values."""

    def run_cases(*cases: dict[str, Any], settings: dict[str, Any] = SETTINGS, more: str = "") -> Ended:
        (tmp_path / "settings.yaml").write_text(json.dumps(settings))
        document = {"settings": "settings.yaml", "tests": cases}
        (tmp_path / "cases.yaml").write_text(json.dumps(document))
        return command("config", "test", tmp_path / "cases.yaml", *more.split())

    return run_cases


def test_expectations_that_hold(run: Any) -> None:
    ended = run(*CASES["holds"]).done()
    assert [line.split()[0] for line in ended.out.splitlines()] == ["ok"] * len(CASES["holds"])
    assert "excluded" in ended.out
    assert "0% ours  no metric  $0.000000" in ended.out


@pytest.mark.parametrize("other", CASES["otherwise"], ids=lambda other: other["tests"][0]["name"])
def test_expectations_that_hold_with_other_settings(other: dict[str, Any], run: Any) -> None:
    run(*other["tests"], settings=SETTINGS | other["settings"]).done()


@pytest.mark.parametrize("case", CASES["wrong"], ids=lambda case: case["told"].partition(":")[0])
def test_a_failed_expectation_shows_expected_and_found(case: dict[str, Any], run: Any) -> None:
    one = {"name": "one", "input": RECORD, "expect": case["expect"]}
    ended = run(one, {"name": "other", "input": RECORD, "expect": {}})
    assert (ended.code, ended.err) == (1, "error: 1 of 2 cases failed\n")
    assert f"\n        {case['told']}\n" in ended.out


def test_the_output_of_a_failed_case(run: Any) -> None:
    gold, expected = RECORD | {"gold": None, "tier": "x"}, {"stratum": "gold", "probability": 1}
    cases = (
        {"name": "gold", "input": gold, "expect": expected},
        {"name": "refused", "input": {"id": "7", "prompt": "q"}, "expect": {"stratum": "default"}},
    )
    asked = SETTINGS | {"metrics": {"brief": SETTINGS["metrics"]["brief"]}}
    ended = run(*cases, settings=asked)
    assert [" ".join(line.split()) for line in ended.out.splitlines()] == [
        "FAILED gold 10% default brief $0.000000",
        'stratum: expected "gold", found "default"',
        "probability: expected 1, found 0.1",
        "FAILED refused no task: answer: must be text (got nothing); write text",
        'problem: expected null, found "answer: must be text (got nothing); write text"',
    ]
    found = json.loads(run(*cases, settings=asked, more="--json").out)
    assert (found["ok"], [case["ok"] for case in found["cases"]]) == (False, [False, False])
    assert found["cases"][0]["failures"][0] == {"what": "stratum", "expected": '"gold"', "found": '"default"'}
    assert found["cases"][0]["found"][0]["metrics"]["brief"]["probability"] == 0.8


def test_what_judging_costs(run: Any) -> None:
    """The vectors of "a" and "r" are 9 tokens each at 10 USD a million: 0.00018 USD, a tenth on average."""
    given = {"id": "7", "prompt": "q", "reply": "a", "gold": "r"}
    near = SETTINGS | {"metrics": {"near": SETTINGS["metrics"]["near"]}}
    exact = {"max_usd": 0.00018001, "max_input_tokens": 18}
    fits = {"metrics": {"near": exact}, "max_usd": 0.000018001}
    assert run({"name": "fits", "input": given, "expect": fits}, settings=near).code == 0
    less = {"metrics": {"near": {"max_usd": 0.000179, "max_input_tokens": 17}}, "max_usd": 0.0000179}
    ended = run({"name": "less", "input": given, "expect": less}, settings=near)
    assert [line.split(":")[0].strip() for line in ended.out.splitlines()[1:]] == [
        "metrics.near.max_input_tokens",
        "metrics.near.max_usd",
        "max_usd",
    ]


def test_traces_are_joined_and_each_event_is_compared(run: Any, tmp_path: Path) -> None:
    """The spans of a trace may be in several records; a trace without content says why it is no event."""
    settings = {name: SETTINGS[name] for name in ("sampling", "judge")}
    settings |= {"ingest": {"format": "otlp"}, "metrics": {"answer_relevance": {}}}
    parts = [request(span(2, "call", MODEL, parent=1)), request(span(1, "ask", CHAIN))]
    (tmp_path / "traces.jsonl").write_bytes(b"\n".join(parts))
    expect = {"event": {"question": "How long?", "answer": "12 hours"}, "metrics": ["answer_relevance"]}
    whole = {"name": "in a file", "file": "traces.jsonl", "expect": expect}
    inline = {"name": "inline", "input": [json.loads(part) for part in parts], "expect": expect}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    silent = json.loads(request(span(1, "chat", chat)))
    none = {"name": "no content", "input": silent, "expect": {"problem": "no_content"}}
    run(whole, inline, none, settings=settings).done()


def test_an_option_names_other_settings_than_the_cases_do(run: Any, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(json.dumps(SETTINGS | {"sampling": {"default_rate": 0.3}}))
    case = {"name": "rate", "input": RECORD, "expect": {"probability": 0.3}}
    assert run(case).code == 1
    assert run(case, more=f"--config {tmp_path / 'other.yaml'}").code == 0


@pytest.mark.parametrize("case", CASES["invalid"], ids=lambda case: case["text"])
def test_invalid_cases_are_refused(case: dict[str, str], tmp_path: Path, command: Command) -> None:
    (tmp_path / "s.yaml").write_text(json.dumps(SETTINGS))
    (tmp_path / "bad.yaml").write_text(json.dumps(SETTINGS | {"metrics": {"coverge": {}}}))
    (tmp_path / "cases.yaml").write_text(case["text"])
    ended = command("config", "test", tmp_path / "cases.yaml")
    assert (ended.code, ended.out) == (2, ""), ended
    assert case["told"] in ended.err
