"""`judgestream judge`: a file scored without Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas import RESULT, Scored, Unscored
from tests.streams.cli.judge_server import (
    EIFFEL_ANSWER,
    EIFFEL_EVIDENCE,
    EIFFEL_REFERENCE,
    judge_server,
)
from tests.streams.cli.processes import judgestream

VERDICT = {
    "score": 5,
    "rationale": [
        "Fact: 2 of 2 facts correctly matched.",
        "Conclusion: 0 of 0 conclusions correctly matched.",
        "Terminology: 1 of 1 terms correctly matched.",
        "Organization: matched",
        "Score: 5 ≈ 5.0 = 5 * (facts_ratio 1.0 * 0.7 + terms_ratio 1.0 * 0.21 + organization_ratio 1.0 * 0.09)",
    ],
}


def event(event_id: str = "eiffel", **fields: Any) -> str:
    return json.dumps(
        {
            "event_id": event_id,
            "question": "Where is the Eiffel Tower and when was it built?",
            "reference": EIFFEL_REFERENCE,
            "answer": EIFFEL_ANSWER,
        }
        | fields
    )


def eiffel(_: dict[str, Any]) -> str:
    return json.dumps(EIFFEL_EVIDENCE)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text(event() + "\n")
    return path


async def test_the_worked_case_gives_exactly_the_published_verdict(events: Path) -> None:
    """2 of 2 facts, no conclusion, 1 of 1 terms, organized alike: 5 * (0.7 + 0.21 + 0.09) = 5."""
    async with judge_server(eiffel) as server:
        ended = await judgestream("judge", str(events), "--metric", "coverage", "--base-url", server.url)
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result["verdict"] == VERDICT
    assert result["score"] == 5
    # Nobody named a model: the only one the server has is taken.
    assert result["judge"]["model_asked"] == "tower-judge"
    assert "tower-judge" in ended.err


async def test_the_usual_variables_name_the_endpoint(events: Path) -> None:
    """OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL; the key goes there as a bearer token and appears nowhere."""
    async with judge_server(eiffel, models=("one", "two")) as server:
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-secret", "OPENAI_MODEL": "two"}
        ended = await judgestream("judge", str(events), "--metric", "coverage", env=env)
        assert ended.code == 0, ended.err
        assert server.keys == ["Bearer sk-secret"]
        assert [request["model"] for request in server.requests] == ["two"]
    assert json.loads(ended.out)["verdict"] == VERDICT
    assert "sk-secret" not in ended.out + ended.err


async def test_several_models_have_to_be_chosen_from(events: Path) -> None:
    """Bad configuration, with the choices."""
    async with judge_server(eiffel, models=("one", "two")) as server:
        ended = await judgestream("judge", str(events), "--metric", "coverage", "--base-url", server.url)
        assert server.requests == []
    assert ended.code == 2
    assert "serves 2 models (one, two)" in ended.err


async def test_without_an_endpoint_the_offline_judge_works(events: Path) -> None:
    """And says so: nobody takes its results for a language model's."""
    ended = await judgestream("judge", str(events), "--metric", "coverage")
    assert ended.code == 0, ended.err
    assert "offline rules" in ended.err
    result = RESULT.validate_json(ended.out)
    assert isinstance(result, Scored)
    assert result.evaluator.model == "offline-rules-1"


async def test_results_come_in_the_order_of_the_lines_and_bad_lines_are_named(tmp_path: Path) -> None:
    """A bad line is named with its number and stops nothing; exit code 1 at the end."""
    path = tmp_path / "events.jsonl"
    lines = [event(f"e{number}") for number in range(20)]
    lines[4:4] = ["{not json", json.dumps({"event_id": "x", "question": "q"}), ""]
    path.write_text("\n".join(lines))
    out = tmp_path / "results.jsonl"
    ended = await judgestream(
        "judge", str(path), "--metric", "coverage", "--output", str(out), "--concurrency", "7", "--json"
    )
    assert ended.code == 1
    assert "line 5: Invalid JSON" in ended.err
    assert "line 6: answer: Field required" in ended.err
    assert "2 of 22 lines are no events" in ended.err
    ids = [json.loads(line)["event_id"] for line in out.read_text().splitlines()]
    assert ids == [f"e{number}" for number in range(20)]
    summary = json.loads(ended.out)
    assert (summary["lines"], summary["scored"], summary["invalid"]) == (22, 20, 2)
    assert summary["cost_usd"] == 0


async def test_reads_standard_input_and_counts_no_forced_zero() -> None:
    """A blank answer is not judged: its forced 0 is in the verdict, and in no mean."""
    lines = f"{event()}\n{event('blank', answer='  ')}\n"
    ended = await judgestream("judge", "-", "--metric", "coverage", stdin=lines.encode())
    assert ended.code == 0, ended.err
    first, second = (RESULT.validate_json(line) for line in ended.out.splitlines())
    assert isinstance(first, Scored)
    assert isinstance(second, Unscored)
    assert second.verdict is not None
    assert second.verdict["score"] == 0
    assert f"1 scored, mean {first.score:.2f}" in ended.err


async def test_an_outage_ends_in_an_error_after_some_tries(events: Path) -> None:
    """No verdict is made up: the endpoint was asked five times, then it is an error."""
    async with judge_server(eiffel, status=503) as server:
        ended = await judgestream(
            "judge", str(events), "--metric", "coverage", "--base-url", server.url, "--model", "m"
        )
        assert len(server.requests) == 5
    assert ended.code == 1
    assert ended.out == ""
    assert "503" in ended.err


async def test_a_refused_key_is_bad_configuration(events: Path) -> None:
    """No use in trying again."""
    async with judge_server(eiffel, status=401) as server:
        ended = await judgestream(
            "judge", str(events), "--metric", "coverage", "--base-url", server.url, "--model", "m"
        )
        assert len(server.requests) == 1
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("error: ")


async def test_a_prompt_pack_makes_a_metric_of_its_own(tmp_path: Path, events: Path) -> None:
    """Its literal braces stay as they are, the known names are filled in."""
    pack = tmp_path / "tone.yaml"
    pack.write_text(
        "score_range: [1, 5]\n"
        "messages:\n"
        "  - {role: system, content: "
        '"Judge the tone. Reply as {\\"score\\": 1}."'
        "}\n"
        '  - {role: user, content: "Q: {question} A: {answer}"}\n'
    )
    async with judge_server(lambda _: '{"score": 4, "justification": "Friendly."}') as server:
        ended = await judgestream(
            "judge", str(events), "--metric", "tone", "--prompt-pack", str(pack), "--base-url", server.url
        )
        assert ended.code == 0, ended.err
        system, user = (message["content"] for message in server.requests[0]["messages"])
    assert system == 'Judge the tone. Reply as {"score": 1}.'
    assert EIFFEL_ANSWER in user
    assert json.loads(ended.out)["score"] == 4
