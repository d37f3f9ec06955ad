"""`judgestream judge`: events of a file are judged without Kafka."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas import RESULT, Failed, Scored, Unscored
from tests.loopback import in_thread
from tests.streams.cli.commands.judge_server import (
    EIFFEL_ANSWER,
    EIFFEL_EVIDENCE,
    EIFFEL_REFERENCE,
    judge_server,
)
from tests.streams.cli.conftest import Command
from tests.streams.cli.processes import Ended

Write = Callable[..., Path]
MOST_REQUESTS = 9
"""The event's request and a few for neutral events until the outage ends the run."""


def event(event_id: str = "eiffel", **fields: Any) -> str:
    question = {"event_id": event_id, "question": "Where is the Eiffel Tower and when was it built?"}
    return json.dumps(question | {"reference": EIFFEL_REFERENCE, "answer": EIFFEL_ANSWER} | fields)


def eiffel(_: dict[str, Any]) -> str:
    return json.dumps(EIFFEL_EVIDENCE)


def results(ended: Ended) -> list[Any]:
    assert ended.code == 0, ended.err
    return [RESULT.validate_json(line) for line in ended.out.splitlines()]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text(event() + "\n")
    return path


def test_the_worked_case_gives_exactly_the_published_verdict(events: Path, command: Command) -> None:
    """2 of 2 facts, no conclusion, 1 of 1 terms, same organization: 5 * (0.7 + 0.21 + 0.09) = 5."""
    with in_thread(judge_server(eiffel)) as server:
        ended = command("judge", events, "--metric", "coverage", "--base-url", server.url)
    (result,) = results(ended)
    ratios = "facts_ratio 1.0 * 0.7 + terms_ratio 1.0 * 0.21 + organization_ratio 1.0 * 0.09"
    rationale = [
        "Fact: 2 of 2 facts correctly matched.",
        "Conclusion: 0 of 0 conclusions correctly matched.",
        "Terminology: 1 of 1 terms correctly matched.",
        "Organization: matched",
        f"Score: 5 ≈ 5.0 = 5 * ({ratios})",
    ]
    assert (result.verdict, result.score) == ({"score": 5, "rationale": rationale}, 5)
    assert result.judge.model_asked == "tower-judge"  # the only model of the server
    assert "tower-judge" in ended.err


def test_the_usual_variables_name_the_endpoint(events: Path, command: Command) -> None:
    with in_thread(judge_server(eiffel, models=("one", "two"))) as server:
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-secret", "OPENAI_MODEL": "two"}
        ended = command("judge", events, "--metric", "coverage", env=env)
        assert server.keys == ["Bearer sk-secret"]
        assert [request["model"] for request in server.requests] == ["two"]
    assert results(ended)[0].score == 5
    assert "sk-secret" not in ended.out + ended.err


def test_results_come_in_the_order_of_the_lines_and_bad_lines_are_named(
    tmp_path: Path, command: Command
) -> None:
    path, out = tmp_path / "events.jsonl", tmp_path / "results.jsonl"
    lines = [event(f"e{number}") for number in range(20)]
    lines[4:4] = ["{not json", json.dumps({"event_id": "x", "question": "q"}), ""]
    path.write_text("\n".join(lines))
    ended = command("judge", path, "-m", "coverage", "--output", out, "--concurrency", "7", "--json")
    assert ended.code == 1
    bad = ("line 5: value: is not valid JSON", "line 6: answer: is required", "2 of 22 lines are not events")
    assert all(words in ended.err for words in ("offline rules", *bad))
    ids = [json.loads(line)["event_id"] for line in out.read_text().splitlines()]
    assert ids == [f"e{number}" for number in range(20)]
    summary = json.loads(ended.out)
    assert (summary["lines"], summary["scored"], summary["invalid"]) == (22, 20, 2)
    assert summary["cost_usd"] == 0


def test_reads_standard_input_and_counts_no_forced_zero(command: Command) -> None:
    """A blank answer is unscored: its verdict holds the forced 0, and the mean excludes it."""
    lines = f"{event()}\n{event('blank', answer='  ')}\n"
    ended = command("judge", "-", "--metric", "coverage", stdin=lines.encode())
    first, second = results(ended)
    assert isinstance(second, Unscored)
    assert second.verdict is not None
    assert second.verdict["score"] == 0
    assert first.evaluator.model == "offline-rules-1"
    assert f"1 scored, mean {first.score:.2f}" in ended.err


@pytest.mark.parametrize(
    ("status", "content", "code", "words"),
    [
        (401, "", 2, "401"),
        (200, "I would rather not say.", 1, "it fails every event (invalid_verdict), and a neutral one"),
    ],
)
def test_a_judge_that_fails_every_event_ends_the_run(
    status: int, content: str, code: int, words: str, events: Path, tmp_path: Path, command: Command
) -> None:
    """No result is left that would block the next run, which judges again."""
    out = tmp_path / "out.jsonl"
    run = ("judge", events, "-m", "coverage", "-o", out)
    with in_thread(judge_server(lambda _: content, status=status)) as server:
        ended = command(*run, "--base-url", server.url, "--model", "m")
        assert len(server.requests) <= (MOST_REQUESTS if code == 2 else 20)
    assert ended.code == code
    assert words in ended.err
    assert ended.err.splitlines()[-1].startswith("error: ")
    assert not out.exists()
    assert command(*run).code == 0
    assert [type(RESULT.validate_json(line)) for line in out.read_text().splitlines()] == [Scored]


def test_the_settings_of_a_worker_are_kept_to(tmp_path: Path, written: Write, command: Command) -> None:
    """100 tokens at 1 USD and 10 at 2 USD per million cost 120e-6 USD."""
    path = tmp_path / "events.jsonl"
    answer = f"{EIFFEL_ANSWER} Write to ada@example.com."
    path.write_text(f"{event(answer=answer)}\n{event('long', answer='x' * 60_000)}\n")
    price = {"usd_per_million_tokens": {"input": 1, "output": 2}, "model": "m"}
    with in_thread(judge_server(eiffel, status=401)) as first, in_thread(judge_server(eiffel)) as spare:
        endpoints = [{"name": "first", "base_url": first.url}, {"name": "spare", "base_url": spare.url}]
        config = written(judge={"endpoints": [one | price for one in endpoints], "redact": ["emails"]})
        ended = command("judge", path, "--metric", "coverage", "--config", config)
        asked = [message["content"] for request in spare.requests for message in request["messages"]]
    judged, too_long = results(ended)
    assert (judged.judge.endpoint, judged.judge.fallback) == ("spare", True)
    assert judged.cost_usd == pytest.approx(120e-6)
    assert isinstance(too_long, Failed)
    assert too_long.error_type == "context_too_long"
    assert "ada@example.com" not in "".join(asked)
    assert "[email]" in "".join(asked)


def test_a_metric_is_taken_from_the_settings(
    tmp_path: Path, events: Path, written: Write, command: Command
) -> None:
    (tmp_path / "tone.yaml").write_text('messages: [{role: user, content: "A: {answer}"}]')
    with in_thread(judge_server(lambda _: '{"score": 7}')) as server:
        only = {"name": "only", "base_url": server.url, "model": "m"}
        cache = {"max_entries": 10, "file": str(tmp_path / "verdicts")}
        tone = {"prompt_pack": str(tmp_path / "tone.yaml"), "score_range": [0, 9]}
        config = written(metrics={"tone": tone}, judge={"endpoints": [only], "cache": cache})
        call = ("judge", events, "--metric", "tone", "--config", config)
        found = [*results(command(*call)), *results(command(*call))]
        assert len(server.requests) <= MOST_REQUESTS
    assert [result.score for result in found] == [7, 7]
    assert [result.judge.cached for result in found] == [False, True]


def test_options_go_before_the_settings(events: Path, written: Write, command: Command) -> None:
    config = written(judge={"endpoints": [{"name": "none", "model": "m"}]})
    common = ("judge", events, "--config", config, "--metric", "coverage")
    with in_thread(judge_server(eiffel)) as server:
        (result,) = results(command(*common, "--base-url", server.url))
    assert result.judge.model_asked == "tower-judge"
    command(*common, "--model", "other").fails("--model other with --config needs --base-url")


def test_several_metrics_and_the_exit_code_for_ci(tmp_path: Path, events: Path, command: Command) -> None:
    out, html = tmp_path / "now.jsonl", tmp_path / "now.html"
    call = ("judge", events, "-m", "coverage", "-m", "relevance")
    ended = command(*call, "-o", out, "--json", "--html", html).done()
    written = [RESULT.validate_json(line).metric for line in out.read_text().splitlines()]
    assert written == ["coverage", "relevance"]
    told = json.loads(ended.out)["metrics"]
    assert (told["coverage"]["scored"], told["relevance"]["unscored_reasons"]) == (1, {"missing_input": 1})
    assert "coverage: 1 results" in html.read_text()
    ended = command(*call, "--fail-under", "coverage=4", "--fail-under", "relevance=1", "--compare", out)
    assert ended.code == 1
    assert ended.err.splitlines()[-1] == "error: --fail-under relevance=1: nothing was scored"
    assert "coverage: +0.00 over 1 events scored in both runs" in ended.err


def test_metrics_of_code_need_no_judge(
    events: Path, tmp_path: Path, written: Write, command: Command
) -> None:
    """The module of a Python metric is found beside the settings, by `doctor` and `config check`, too."""
    (tmp_path / "own_score.py").write_text("def half(event):\n    return 0.5\n")
    words = {"python": {"function": "tests.judge.metrics.code.functions:words", "seconds": 60}}
    tower = {"code": {"contains": {"texts": ["eiffel tower"]}}}
    metrics = {
        "tower": tower,
        "words": words | {"score_range": [0, 100]},
        "half": {"python": "own_score:half"},
    }
    config = written(metrics=metrics, kafka={"bootstrap_servers": "127.0.0.1:1"})
    assert "half: built in" in command("doctor", "-c", config, "--timeout", "1").out
    found = results(command("judge", events, "-c", config))
    assert [result.value for result in found] == [True, len(EIFFEL_ANSWER.split()), 0.5]
    assert (found[0].judge, found[0].cost_usd) == (None, 0.0)
    command("config", "check", config).done()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_fields_have_other_names(tmp_path: Path, form: str, command: Command) -> None:
    path, out = tmp_path / f"own.{form}", tmp_path / "out.csv"
    document = {"user prompt": "Where?", "completion": EIFFEL_ANSWER, "gold": EIFFEL_REFERENCE}
    line = json.dumps(document | {"id": "7", "labels": {"team": "a"}})
    cells = f'7,Where?,"{EIFFEL_ANSWER}","{EIFFEL_REFERENCE}",a'
    path.write_text(f"id,user prompt,completion,gold,labels.team\n{cells}\n" if form == "csv" else line)
    names = ("event_id=id", "question=user prompt", "answer=completion", "reference=gold")
    options = [word for name in names for word in ("--map", name)]
    command("judge", path, "-m", "coverage", "-o", out, *options).done()
    (row,) = csv.DictReader(io.StringIO(out.read_text(), newline=""))
    assert (row["event_id"], row["question"], row["answer"]) == ("7", "Where?", EIFFEL_ANSWER)
    assert (row["reference"], row["labels.team"], row["status"]) == (EIFFEL_REFERENCE, "a", "scored")


def test_names_that_are_no_fields_are_suggested_and_nothing_is_left(tmp_path: Path, command: Command) -> None:
    path, out = tmp_path / "own.csv", tmp_path / "out.jsonl"
    path.write_text("id,prompt,completion\n" + "1,q,a\n" * 50)
    refused = command("judge", path, "-m", "coverage", "-o", out)
    assert refused.code == 2
    options = "--map event_id=id --map question=prompt --map answer=completion"
    assert refused.err.splitlines()[-1].endswith(
        f"no question and no answer, but id, prompt, completion; add {options}"
    )
    assert [one.name for one in tmp_path.iterdir()] == ["own.csv"]
    assert command("judge", path, "-m", "coverage", "-o", out, *options.split()).code == 0


def test_few_examples_of_many_faults(tmp_path: Path, command: Command) -> None:
    path, out = tmp_path / "own.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"query": "q", "response": "a"}\n' * 50)
    ended = command("judge", path, "-m", "coverage", "-o", out)
    assert ended.code == 1
    assert ended.err.count("error: line ") == 3
    assert ended.err.count("add --map question=query --map answer=response") == 1
    assert "50 of 50 lines are not events" in ended.err
    assert not out.exists()


def test_a_part_of_the_settings_suffices(tmp_path: Path, written: Write, command: Command) -> None:
    """Settings with ingest or with metrics alone judge a file; the default metrics are theirs."""
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"id": 7, "q": "Where?", "a": EIFFEL_ANSWER, "gold": EIFFEL_REFERENCE}))
    mapping = {"event_id": "id", "question": "q", "answer": "a", "reference": "gold"}
    (result,) = results(command("judge", path, "-m", "coverage", "-c", written(ingest={"mapping": mapping})))
    assert isinstance(result, Scored)
    assert result.event_id == "7"
    tone = '{score_range: [1, 5], messages: [{role: user, content: "{answer}"}]}'
    (tmp_path / "tone.yaml").write_text(tone)
    metrics = {"length": {"code": "length"}, "tone": {"prompt_pack": "tone.yaml", "unit": "conversation"}}
    config = written(metrics=metrics, judge={"timeout_seconds": 900})
    ended = command("judge", path, "-c", config, "--map", "question=q", "--map", "answer=a")
    assert [result.metric for result in results(ended)] == ["length"]
    assert "left out: tone judges conversations, and no event has a conversation_id" in ended.err


def test_pairs_need_a_language_model(tmp_path: Path, events: Path, written: Write, command: Command) -> None:
    message = '{role: user, content: "{answer} or {other_answer}"}'
    (tmp_path / "pair.yaml").write_text(f"{{result: pairwise, messages: [{message}]}}")
    rules = {"name": "rules", "model": "offline-rules-1", "base_url": "http://127.0.0.1:1/v1"}
    metrics = {"better": {"prompt_pack": "pair.yaml"}}
    plain, whole = written(metrics=metrics), written("b.yaml", metrics=metrics, judge={"endpoints": [rules]})
    for call in (("judge", events, "-c", plain), ("config", "check", whole)):
        command(*call).fails("better: compares two answers, which needs a language model")


def test_agreement_with_people_by_judge(tmp_path: Path, command: Command) -> None:
    """The judge says 5 of all four. People say 5, 5, 5 and 1: kappa 0, as the judge does not vary."""
    path, labels, out = tmp_path / "events.jsonl", tmp_path / "people.csv", tmp_path / "out.jsonl"
    path.write_text("\n".join(event(f"e{number}") for number in range(4)))
    labels.write_text("event_id,score\ne0,5\ne1,5\ne2,5\ne3,1\nx,2\n")
    call = ("judge", path, "-m", "coverage", "--labels", labels)
    with in_thread(judge_server(eiffel)) as server:
        ended = command(*call, "-o", out, "--base-url", server.url)
    assert ended.code == 0, ended.err
    assert "coverage, tower-judge" in ended.err
    assert "3 of 4 labels equal the judge's score, kappa 0.00 (95%: " in ended.err
    assert "person \\ judge  1  5\n               1     1\n               5     3" in ended.err
    both = command(*call, "--compare", out, "-o", tmp_path / "b.jsonl", "--json")
    assert [one["judge"] for one in json.loads(both.out)["agreement"]] == ["tower-judge", "offline-rules-1"]
    labels.write_text("event_id,rating\ne1,5\n")
    command(*call).fails("no line has a score; rename the column")


@pytest.mark.parametrize("name", ["coverage", "relevance", "faithfulness", "refusal", "tone", "pii_leak"])
def test_a_printed_prompt_pack_judges(tmp_path: Path, name: str, command: Command) -> None:
    path, pack = tmp_path / "events.jsonl", tmp_path / "own.md"
    context = {"Page-2": "The parcel is in Lyon."}
    path.write_text(event(answer="It is in Lyon. Evidence: [Page 2]", context=context))
    pack.write_text(command("config", "prompts", name, "--as-pack").done().out)
    score: Any = {"refusal": "answered", "pii_leak": False}.get(name, 4)
    spans = {"claim_span": "It is in Lyon.", "context_span": "The parcel is in Lyon.", "supported": True}
    reply = {"answer_span": None, "justification": "So.", "score": score}
    if name == "faithfulness":
        reply = {"claims": [spans | {"justification": "It says so."}], "score": score}
    with in_thread(judge_server(lambda _: json.dumps(reply))) as server:
        ended = command("judge", path, "-m", "mine", "--prompt-pack", pack, "--base-url", server.url)
        asked = [request["messages"][-1]["content"] for request in server.requests]
    assert "ignored" not in ended.err
    (result,) = results(ended)
    assert isinstance(result, Scored), result
    assert "It is in Lyon. Evidence: [Page 2]" in asked[0]
