"""`judgestream config test`: cases that hold, what is said of those that do not, and invalid ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.streams.cli.conftest import Command
from tests.streams.cli.processes import Ended
from tests.streams.intake.reading.otlp.building import request, span

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


def test_other_settings(run: Any, tmp_path: Path) -> None:
    """--config names the settings to test instead of those that the cases name."""
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
