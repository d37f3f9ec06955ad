"""`judgestream judge`: events of a file are judged without Kafka."""

# ruff: noqa: ASYNC240 - files of a test are small

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from schemas import RESULT, Failed, Scored, Unscored
from streams.cli.file_run import FileCall, FileRun
from streams.settings import Settings
from tests.streams.cli.commands.judge_server import (
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
        (
            "Score: 5 ≈ 5.0 = 5 * (facts_ratio 1.0 * 0.7 + terms_ratio 1.0 * 0.21 + organization_ratio "
            "1.0 * 0.09)"
        ),
    ],
}


MOST_REQUESTS = 9
"""The event's request and a few for neutral events until the outage ends the run, also on a busy machine."""


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
    """2 of 2 facts, no conclusion, 1 of 1 terms, same organization: 5 * (0.7 + 0.21 + 0.09) = 5."""
    async with judge_server(eiffel) as server:
        ended = await judgestream("judge", str(events), "--metric", "coverage", "--base-url", server.url)
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result["verdict"] == VERDICT
    assert result["score"] == 5
    # Without --model, the only model of the server is used.
    assert result["judge"]["model_asked"] == "tower-judge"
    assert "tower-judge" in ended.err


async def test_the_usual_variables_name_the_endpoint(events: Path) -> None:
    """OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL name the endpoint.

    The key is sent as a bearer token and printed nowhere.
    """
    async with judge_server(eiffel, models=("one", "two")) as server:
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-secret", "OPENAI_MODEL": "two"}
        ended = await judgestream("judge", str(events), "--metric", "coverage", env=env)
        assert ended.code == 0, ended.err
        assert server.keys == ["Bearer sk-secret"]
        assert [request["model"] for request in server.requests] == ["two"]
    assert json.loads(ended.out)["verdict"] == VERDICT
    assert "sk-secret" not in ended.out + ended.err


@pytest.mark.slow
async def test_without_an_endpoint_the_offline_judge_works(events: Path) -> None:
    """Without an endpoint the offline judge is used, and standard error names it."""
    ended = await judgestream("judge", str(events), "--metric", "coverage")
    assert ended.code == 0, ended.err
    assert "offline rules" in ended.err
    result = RESULT.validate_json(ended.out)
    assert isinstance(result, Scored)
    assert result.evaluator.model == "offline-rules-1"


async def test_results_come_in_the_order_of_the_lines_and_bad_lines_are_named(tmp_path: Path) -> None:
    """Results are in the order of the lines; invalid lines are named by number and give exit code 1."""
    path = tmp_path / "events.jsonl"
    lines = [event(f"e{number}") for number in range(20)]
    lines[4:4] = ["{not json", json.dumps({"event_id": "x", "question": "q"}), ""]
    path.write_text("\n".join(lines))
    out = tmp_path / "results.jsonl"
    ended = await judgestream(
        "judge", str(path), "--metric", "coverage", "--output", str(out), "--concurrency", "7", "--json"
    )
    assert ended.code == 1
    assert "line 5: value: is not valid JSON" in ended.err
    assert "line 6: answer: is required" in ended.err
    assert "2 of 22 lines are not events" in ended.err
    ids = [json.loads(line)["event_id"] for line in out.read_text().splitlines()]
    assert ids == [f"e{number}" for number in range(20)]
    summary = json.loads(ended.out)
    assert (summary["lines"], summary["scored"], summary["invalid"]) == (22, 20, 2)
    assert summary["cost_usd"] == 0


async def test_reads_standard_input_and_counts_no_forced_zero() -> None:
    """A blank answer is unscored: its verdict holds the forced 0, and the mean excludes it."""
    lines = f"{event()}\n{event('blank', answer='  ')}\n"
    ended = await judgestream("judge", "-", "--metric", "coverage", stdin=lines.encode())
    assert ended.code == 0, ended.err
    first, second = (RESULT.validate_json(line) for line in ended.out.splitlines())
    assert isinstance(first, Scored)
    assert isinstance(second, Unscored)
    assert second.verdict is not None
    assert second.verdict["score"] == 0
    assert f"1 scored, mean {first.score:.2f}" in ended.err


@pytest.mark.slow
async def test_an_outage_ends_in_an_error_after_a_while(events: Path) -> None:
    """An endpoint that keeps answering 503 gives exit code 1 after a few calls, without a result.

    The calls include those that check whether the endpoint has recovered.
    """
    async with judge_server(eiffel, status=503) as server:
        ended = await judgestream(
            "judge", str(events), "--metric", "coverage", "--base-url", server.url, "--model", "m"
        )
        assert 3 <= len(server.requests) <= 20
    assert ended.code == 1
    assert ended.out == ""
    assert "503" in ended.err


async def test_a_refused_key_is_bad_configuration(events: Path) -> None:
    """A refused key gives exit code 2 without retries."""
    async with judge_server(eiffel, status=401) as server:
        ended = await judgestream(
            "judge", str(events), "--metric", "coverage", "--base-url", server.url, "--model", "m"
        )
        assert len(server.requests) <= MOST_REQUESTS
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("error: ")


async def test_a_prompt_pack_makes_a_metric_of_its_own(tmp_path: Path, events: Path) -> None:
    """A prompt pack fills in known names and leaves literal braces unchanged."""
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


def written(path: Path, settings: dict[str, Any]) -> str:
    path.write_text(json.dumps(settings))  # JSON is YAML
    return str(path)


@pytest.mark.slow
async def test_the_settings_of_a_worker_are_kept_to(tmp_path: Path) -> None:
    """The fallback endpoint answers if the first refuses; texts are redacted and limited in length.

    100 tokens at 1 USD and 10 at 2 USD per million cost 120e-6 USD.
    """
    path = tmp_path / "events.jsonl"
    answer = f"{EIFFEL_ANSWER} Write to ada@example.com."
    path.write_text(f"{event(answer=answer)}\n{event('long', answer='x' * 50_001)}\n")
    async with judge_server(eiffel, status=401) as first, judge_server(eiffel) as spare:
        price = {"input": 1, "output": 2}
        config = written(
            tmp_path / "settings.yaml",
            {
                "judge": {
                    "endpoints": [
                        {"name": name, "base_url": url, "model": "m", "usd_per_million_tokens": price}
                        for name, url in (("first", first.url), ("spare", spare.url))
                    ],
                    "redact": ["emails"],
                }
            },
        )
        ended = await judgestream("judge", str(path), "--metric", "coverage", "--config", config)
        asked = [message["content"] for request in spare.requests for message in request["messages"]]
    assert ended.code == 0, ended.err
    judged, too_long = (RESULT.validate_json(line) for line in ended.out.splitlines())
    assert judged.judge is not None
    assert (judged.judge.endpoint, judged.judge.fallback) == ("spare", True)
    assert judged.cost_usd == pytest.approx(120e-6)
    assert isinstance(too_long, Failed)
    assert too_long.error_type == "context_too_long"
    assert "ada@example.com" not in "".join(asked)
    assert "[email]" in "".join(asked)


@pytest.mark.slow
async def test_a_metric_is_taken_from_the_settings(tmp_path: Path, events: Path) -> None:
    """--metric names a metric of the settings with its pack and range; a cached verdict needs no call."""
    (tmp_path / "tone.yaml").write_text('messages: [{role: user, content: "A: {answer}"}]')
    async with judge_server(lambda _: '{"score": 7}') as server:
        config = written(
            tmp_path / "settings.yaml",
            {
                "metrics": {"tone": {"prompt_pack": str(tmp_path / "tone.yaml"), "score_range": [0, 9]}},
                "judge": {
                    "endpoints": [{"name": "only", "base_url": server.url, "model": "m"}],
                    "cache": {"max_entries": 10, "file": str(tmp_path / "verdicts")},
                },
            },
        )
        ends = [
            await judgestream("judge", str(events), "--metric", "tone", "--config", config) for _ in range(2)
        ]
        assert len(server.requests) <= MOST_REQUESTS
    results = [RESULT.validate_json(ended.out) for ended in ends]
    assert [isinstance(result, Scored) and result.score for result in results] == [7, 7]
    assert [result.judge is not None and result.judge.cached for result in results] == [False, True]


@pytest.mark.slow
async def test_options_go_before_the_settings(tmp_path: Path, events: Path) -> None:
    """--base-url overrides the settings' endpoint.

    --model without --base-url, and an unknown metric, are bad usage.
    """
    config = written(tmp_path / "settings.yaml", {"judge": {"endpoints": [{"name": "none", "model": "m"}]}})
    common = ("judge", str(events), "--config", config)
    async with judge_server(eiffel) as server:
        ended = await judgestream(*common, "--metric", "coverage", "--base-url", server.url)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["judge"]["model_asked"] == "tower-judge"
    ended = await judgestream(*common, "--metric", "coverage", "--model", "other")
    assert ended.code == 2
    assert "--model other with --config needs --base-url" in ended.err
    ended = await judgestream(*common, "--metric", "mood")
    assert ended.code == 2
    assert "toxicity, got 'mood'; any other name needs --prompt-pack" in ended.err


@pytest.mark.slow
async def test_no_existing_file_is_overwritten(tmp_path: Path, events: Path) -> None:
    """Neither the input file nor earlier results are overwritten, even if the run fails."""
    before = events.read_text()
    ended = await judgestream("judge", str(events), "--metric", "coverage", "-o", str(events))
    assert ended.code == 2
    assert "is the input file; name another" in ended.err
    assert events.read_text() == before
    old = tmp_path / "old.jsonl"
    old.write_text("paid for")
    async with judge_server(eiffel, status=503) as server:
        files = (str(events), "-o", str(old))
        call = ("judge", *files, "--metric", "coverage", "--base-url", server.url, "--model", "m")
        assert (await judgestream(*call)).code == 2
        assert server.requests == []
        assert (await judgestream(*call, "--overwrite")).code == 1
    assert old.read_text() == "paid for"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.jsonl", "old.jsonl"]


@pytest.mark.slow
async def test_several_metrics_and_the_exit_code_for_ci(tmp_path: Path, events: Path) -> None:
    """Each metric judges each event; a metric with no scored event fails --fail-under with exit code 1."""
    out = tmp_path / "now.jsonl"
    call = ("judge", str(events), "-m", "coverage", "-m", "relevance")
    ended = await judgestream(*call, "-o", str(out), "--json", "--html", str(tmp_path / "now.html"))
    assert ended.code == 0, ended.err
    assert [RESULT.validate_json(line).metric for line in out.read_text().splitlines()] == [
        "coverage",
        "relevance",
    ]
    told = json.loads(ended.out)["metrics"]
    assert (told["coverage"]["scored"], told["relevance"]["unscored_reasons"]) == (1, {"missing_input": 1})
    assert "coverage: 1 results" in (tmp_path / "now.html").read_text()
    ended = await judgestream(
        *call, "--fail-under", "coverage=4", "--fail-under", "relevance=1", "--compare", str(out)
    )
    assert ended.code == 1
    assert ended.err.splitlines()[-1] == "error: --fail-under relevance=1: nothing was scored"
    assert "coverage: +0.00 over 1 events scored in both runs" in ended.err


async def test_a_judge_that_fails_every_event_ends_the_run(events: Path) -> None:
    """A judge that fails a neutral event in the same way ends the run with exit code 1 and the reason."""
    async with judge_server(lambda _: "I would rather not say.") as server:
        ended = await judgestream(
            "judge", str(events), "-m", "coverage", "--base-url", server.url, "--model", "m"
        )
    assert ended.code == 1
    assert "it fails every event (invalid_verdict), and a neutral one" in ended.err


@pytest.mark.slow
async def test_a_mapping_of_the_settings_is_used(tmp_path: Path) -> None:
    """The mapping of the settings applies to the file's records."""
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"id": 7, "q": "Where?", "a": EIFFEL_ANSWER, "gold": EIFFEL_REFERENCE}))
    mapping = {"event_id": "id", "question": "q", "answer": "a", "reference": "gold"}
    async with judge_server(eiffel) as server:
        config = written(
            tmp_path / "settings.yaml",
            {
                "ingest": {"mapping": mapping},
                "judge": {"endpoints": [{"name": "only", "base_url": server.url, "model": "m"}]},
            },
        )
        ended = await judgestream("judge", str(path), "-m", "coverage", "--config", config)
    assert ended.code == 0, ended.err
    assert RESULT.validate_json(ended.out).event_id == "7"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fail-under", "tone=3"), "--fail-under names 'tone', which is not judged; add --metric tone"),
        (("--fail-under", "coverage=high"), "--fail-under must be METRIC=MEAN, got 'coverage=high'"),
        (("--overwrite", "--resume", "-o", "x.jsonl"), "--overwrite and --resume exclude each other"),
        (("--compare", "missing.jsonl"), "missing.jsonl: cannot be read"),
    ],
)
async def test_options_that_do_not_fit(events: Path, options: tuple[str, ...], words: str) -> None:
    """Options that contradict each other are bad usage, before an endpoint is called."""
    ended = await judgestream("judge", str(events), "--metric", "coverage", *options)
    assert ended.code == 2
    assert words in ended.err


@pytest.mark.slow
def test_a_metric_by_vectors_is_one_of_the_settings(events: Path) -> None:
    """A metric by embeddings is built from the settings without a prompt."""
    near = {"code": {"similarity": "embeddings"}, "model": "e"}
    settings = Settings.model_validate({"metrics": {"near": near}})
    call = FileCall(file=events, form="jsonl", metrics=("near",), settings=settings)
    assert FileRun(call).metrics["near"].scoring_version == "embedding-cosine-1"


async def test_metrics_of_code_need_no_judge(events: Path, tmp_path: Path) -> None:
    """Code metrics of the settings need no endpoint and cost nothing."""
    function = "tests.judge.metrics.code.functions:words"
    metrics = {
        "tower": {"code": {"contains": {"texts": ["eiffel tower"]}}},
        "words": {"python": {"function": function, "seconds": 60}, "score_range": [0, 100]},
    }
    config = written(tmp_path / "settings.yaml", {"metrics": metrics})
    ended = await judgestream("judge", str(events), "-m", "tower", "-m", "words", "--config", config)
    assert ended.code == 0, ended.err
    tower, words = (RESULT.validate_json(line) for line in ended.out.splitlines())
    assert isinstance(tower, Scored)
    assert (tower.value, tower.judge, tower.cost_usd) == (True, None, 0.0)
    assert isinstance(words, Scored), words
    assert words.value == len(EIFFEL_ANSWER.split())


TABLE = "id,user prompt,completion,gold,labels.team\n"
ROW = f'7,Where?,"{EIFFEL_ANSWER}","{EIFFEL_REFERENCE}",a\n'
MAP = ("--map", "question=user prompt", "--map", "answer=completion", "--map", "reference=gold")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
async def test_fields_have_other_names(tmp_path: Path, form: str) -> None:
    """--map names the column or JSON field of an event's field; the CSV of results has texts and labels."""
    path, out = tmp_path / f"own.{form}", tmp_path / "out.csv"
    document = {"user prompt": "Where?", "completion": EIFFEL_ANSWER, "gold": EIFFEL_REFERENCE}
    path.write_text(
        TABLE + ROW if form == "csv" else json.dumps(document | {"id": "7", "labels": {"team": "a"}})
    )
    call = ("judge", str(path), "-m", "coverage", "-o", str(out), "--map", "event_id=id", *MAP)
    ended = await judgestream(*call)
    assert ended.code == 0, ended.err
    (row,) = csv.DictReader(io.StringIO(out.read_text(), newline=""))
    assert (row["event_id"], row["question"], row["answer"]) == ("7", "Where?", EIFFEL_ANSWER)
    assert (row["reference"], row["labels.team"], row["status"]) == (EIFFEL_REFERENCE, "a", "scored")


async def test_names_that_are_no_fields_are_suggested_and_nothing_is_left(tmp_path: Path) -> None:
    """A table without the fields is refused with the options that fit; then the same output is free."""
    path, out = tmp_path / "own.csv", tmp_path / "out.jsonl"
    path.write_text("id,prompt,completion\n" + "1,q,a\n" * 50)
    refused = await judgestream("judge", str(path), "-m", "coverage", "-o", str(out))
    assert refused.code == 2
    options = "--map event_id=id --map question=prompt --map answer=completion"
    assert refused.err.splitlines()[-1].endswith(
        f"no question and no answer, but id, prompt, completion; add {options}"
    )
    assert [one.name for one in tmp_path.iterdir()] == ["own.csv"]
    ended = await judgestream("judge", str(path), "-m", "coverage", "-o", str(out), *options.split())
    assert ended.code == 0, ended.err


async def test_few_examples_of_many_faults(tmp_path: Path) -> None:
    """Of 50 lines that are no events three are shown, then their number; the fields are suggested once."""
    path, out = tmp_path / "own.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"query": "q", "response": "a"}\n' * 50)
    ended = await judgestream("judge", str(path), "-m", "coverage", "-o", str(out))
    assert ended.code == 1
    assert ended.err.count("error: line ") == 3
    assert ended.err.count("add --map question=query --map answer=response") == 1
    assert "50 of 50 lines are not events" in ended.err
    assert not out.exists()


async def test_a_part_of_the_settings_suffices(tmp_path: Path) -> None:
    """Settings with ingest or with one metric alone judge a file, with the offline judge.

    The metrics are those of the settings by default; conditions of Kafka do not apply.
    """
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"q": "Where?", "a": EIFFEL_ANSWER, "gold": EIFFEL_REFERENCE}))
    mapping = {"question": "q", "answer": "a", "reference": "gold"}
    config = written(tmp_path / "ingest.yaml", {"ingest": {"mapping": mapping}})
    ended = await judgestream("judge", str(path), "-m", "coverage", "-c", config)
    assert ended.code == 0, ended.err
    assert isinstance(RESULT.validate_json(ended.out), Scored)
    refused = await judgestream("judge", str(path), "-c", config)
    assert refused.code == 2
    assert "--metric is required" in refused.err
    (tmp_path / "tone.yaml").write_text(
        '{score_range: [1, 5], messages: [{role: user, content: "{answer}"}]}'
    )
    metrics = {"length": {"code": "length"}, "tone": {"prompt_pack": "tone.yaml", "unit": "conversation"}}
    config = written(tmp_path / "metrics.yaml", {"metrics": metrics, "judge": {"timeout_seconds": 900}})
    ended = await judgestream("judge", str(path), "-c", config, "--map", "question=q", "--map", "answer=a")
    assert ended.code == 0, ended.err
    assert RESULT.validate_json(ended.out).metric == "length"
    assert "left out: tone judges conversations, and no event has a conversation_id" in ended.err


async def test_a_function_beside_the_settings_is_found(tmp_path: Path, events: Path) -> None:
    """The module of a Python metric is found in the folder of the settings, by `judge` and `config check`."""
    (tmp_path / "own_score.py").write_text("def half(event):\n    return 0.5\n")
    config = written(tmp_path / "settings.yaml", {"metrics": {"half": {"python": "own_score:half"}}})
    ended = await judgestream("judge", str(events), "-c", config)
    assert ended.code == 0, ended.err
    result = RESULT.validate_json(ended.out)
    assert isinstance(result, Scored)
    assert result.value == 0.5
    checked = await judgestream("config", "check", config, "--no-ask")
    assert checked.code == 0, checked.err


async def test_pairs_need_a_language_model(tmp_path: Path, events: Path) -> None:
    """A pack of pairs is refused by name with the offline judge, by `judge` and by `config check`."""
    content = "{answer} or {other_answer}"
    (tmp_path / "pair.yaml").write_text(
        f'{{result: pairwise, messages: [{{role: user, content: "{content}"}}]}}'
    )
    judge = {
        "endpoints": [{"name": "rules", "model": "offline-rules-1", "base_url": "http://127.0.0.1:1/v1"}]
    }
    metrics = {"better": {"prompt_pack": "pair.yaml"}}
    words = "better: compares two answers, which needs a language model"
    refused = await judgestream(
        "judge", str(events), "-c", written(tmp_path / "settings.yaml", {"metrics": metrics})
    )
    assert refused.code == 2
    assert words in refused.err
    config = written(tmp_path / "worker.yaml", {"metrics": metrics, "judge": judge})
    refused = await judgestream("config", "check", config, "--no-ask")
    assert refused.code == 2
    assert words in refused.err


async def test_a_run_that_ended_early_goes_on(events: Path, tmp_path: Path) -> None:
    """A run whose every result failed leaves no result that blocks the next one, which judges again."""
    out = tmp_path / "out.jsonl"
    call = ("judge", str(events), "-m", "coverage", "-o", str(out))
    async with judge_server(lambda _: "no") as server:
        assert (await judgestream(*call, "--base-url", server.url, "--model", "m")).code == 1
    assert not out.exists()
    ended = await judgestream(*call)
    assert ended.code == 0, ended.err
    assert [isinstance(RESULT.validate_json(line), Scored) for line in out.read_text().splitlines()] == [True]


async def test_agreement_with_people_by_judge(tmp_path: Path) -> None:
    """--labels prints kappa with its interval and the table of choices, for this judge and the earlier one.

    The judge says 5 of all four. People say 5, 5, 5 and 1: kappa 0, as the judge does not vary.
    """
    path, labels, out = tmp_path / "events.jsonl", tmp_path / "people.csv", tmp_path / "out.jsonl"
    path.write_text("\n".join(event(f"e{number}") for number in range(4)))
    labels.write_text(
        "event_id,score\n" + "".join(f"e{n},{1 if n == 3 else 5}\n" for n in range(4)) + "x,2\n"
    )
    call = ("judge", str(path), "-m", "coverage", "--labels", str(labels))
    async with judge_server(eiffel) as server:
        ended = await judgestream(*call, "-o", str(out), "--base-url", server.url)
    assert ended.code == 0, ended.err
    assert "coverage, tower-judge" in ended.err
    assert "3 of 4 labels equal the judge's score, kappa 0.00 (95%: " in ended.err
    assert "person \\ judge  1  5\n               1     1\n               5     3" in ended.err
    both = await judgestream(*call, "--compare", str(out), "-o", str(tmp_path / "b.jsonl"), "--json")
    assert [one["judge"] for one in json.loads(both.out)["agreement"]] == ["tower-judge", "offline-rules-1"]
    labels.write_text("event_id,rating\ne1,5\n")
    refused = await judgestream(*call)
    assert refused.code == 2
    assert "no line has a score; rename the column" in refused.err


@pytest.mark.parametrize("name", ["coverage", "relevance", "faithfulness", "refusal", "tone", "pii_leak"])
async def test_a_printed_prompt_pack_judges(tmp_path: Path, name: str) -> None:
    """`config prompts NAME --as-pack` prints a pack that judges a file, with the event's texts."""
    path, pack = tmp_path / "events.jsonl", tmp_path / "own.md"
    texts: dict[str, Any] = {
        "answer": "It is in Lyon. Evidence: [Page 2]",
        "context": {"Page-2": "The parcel is in Lyon."},
    }
    path.write_text(event(**texts))
    printed = await judgestream("config", "prompts", name, "--as-pack")
    assert printed.code == 0, printed.err
    pack.write_text(printed.out)
    asked: list[str] = []
    score: Any = {"refusal": "answered", "pii_leak": False}.get(name, 4)
    spans = {"claim_span": "It is in Lyon.", "context_span": "The parcel is in Lyon.", "supported": True}
    item = spans | {"justification": "It says so."}
    reply = {"answer_span": None, "justification": "So.", "score": score}
    if name == "faithfulness":
        reply = {"claims": [item], "score": score}

    def answer(request: dict[str, Any]) -> str:
        asked.append(request["messages"][-1]["content"])
        return json.dumps(reply)

    async with judge_server(answer) as server:
        ended = await judgestream(
            "judge", str(path), "-m", "mine", "--prompt-pack", str(pack), "--base-url", server.url
        )
    assert ended.code == 0, ended.err
    assert "ignored" not in ended.err
    result = RESULT.validate_json(ended.out)
    assert isinstance(result, Scored), result
    assert "It is in Lyon. Evidence: [Page 2]" in asked[0]
