"""The commands that read a store, `compare` of its versions, and `judgestream calibrate` of files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from schemas import Failed, Scored, Unscored
from tests.streams.cli.conftest import Command
from tests.streams.cli.processes import Ended
from tests.streams.results import failed, scored, unscored
from tests.streams.store.records import StoreFile, result_record
from tests.streams.store.views.serving import fill

Compared = Callable[..., Ended]


def store_of(folder: Path, *results: Scored | Unscored | Failed) -> Path:
    file = StoreFile(folder / "store.sqlite3")
    file.write(*results)
    return file.path


def results(count: int, old: int, new: int, **common: Any) -> list[Scored]:
    return [
        scored(number, new if number % 2 else old, labels={"version": f"v{7 + number % 2}"}, **common)
        for number in range(count)
    ]


@pytest.fixture
def compared(command: Command) -> Compared:
    """A function that compares the versions of a store."""
    words = ("compare", "-m", "relevance", "--label", "version=v7,v8", "--store")
    return lambda path, *options: command(*words, path, *options)


@pytest.mark.parametrize(
    ("count", "new", "code", "answer"), [(400, 4, 0, "no worse"), (400, 1, 1, "worse"), (20, 4, 3, "not yet")]
)
def test_the_answer_is_the_exit_code(
    tmp_path: Path, count: int, new: int, code: int, answer: str, compared: Compared
) -> None:
    ended = compared(store_of(tmp_path, *results(count, 4, new)), "--margin", "1")
    assert ended.code == code
    assert ended.out.startswith(answer)
    assert f"v8 ({count // 2} scored) against v7 ({count // 2} scored)" in ended.out


def test_answers_to_one_user_count_once(tmp_path: Path, compared: Compared) -> None:
    """Of 20 users of v7 8 get bad answers, of v8 12, fifty each: too few users, though 2,000 answers."""
    answers = [
        scored(
            1_000 * version + 50 * user + number,
            1 if user < 8 + 4 * version else 5,
            labels={"version": f"v{7 + version}", "user": f"{version}-{user}"},
        )
        for user in range(20)
        for number in range(50)
        for version in (0, 1)
    ]
    path = store_of(tmp_path, *answers)
    assert compared(path, "--margin", "0.01").code == 1
    ended = compared(path, "--margin", "0.01", "--cluster", "user")
    assert (ended.code, ended.out.split(" ")[0]) == (3, "not")
    assert "v8 (1000 scored; 20 independent) against v7 (1000 scored; 20 independent)" in ended.out


def test_another_mix_of_apps_is_no_worse_version(tmp_path: Path, compared: Compared) -> None:
    """Answers of `hard` get 2 and of `easy` 5, with both versions; v8 has mostly hard ones, v7 easy ones."""
    answers = []
    for number in range(4_000):
        version, hard = number % 2, number // 2 % 10 < (9 if number % 2 else 1)
        labels = {"version": f"v{7 + version}", "app": "hard" if hard else "easy"}
        answers.append(scored(number, 2 if hard else 5, labels=labels))
    path = store_of(tmp_path, *answers)
    assert compared(path, "--margin", "1").code == 1
    assert compared(path, "--margin", "1", "--by", "app").code == 0


@pytest.mark.parametrize("first", [0, -525_600], ids=["right clocks", "a year ahead"])
def test_answers_sampled_together_count_once_when_half_an_hour_is_over(
    tmp_path: Path, first: int, compared: Compared
) -> None:
    """Two conversations of 20, of either version, and one answer alone; the second one is not over."""

    def answer(number: int, minutes: int, cluster: str | None) -> Scored:
        result = scored(number, 4, labels={"version": f"v{7 + number % 2}"})
        sampling = result.sampling.model_copy(update={"cluster": cluster})
        judged_at = datetime.now(UTC) - timedelta(minutes=minutes)
        times = result.times.model_copy(update={"judged_at": judged_at})
        return result.model_copy(update={"sampling": sampling, "times": times})

    answers = [answer(98, first, None), answer(40, 10, None)]
    answers += [answer(number, 70 if number < 20 else 10, f"{number // 20:014x}") for number in range(40)]
    found = json.loads(compared(store_of(tmp_path, *answers), "--json").out)
    assert found["compared"] == [3, 1]
    assert found["counts"] == [{"scored": 22}, {"scored": 20}]


def test_a_version_with_more_answers_without_a_score_is_worse(tmp_path: Path, compared: Compared) -> None:
    kept = results(600, 4, 5)
    lost = [failed(1000 + n, labels={"version": "v8"}) for n in range(300)]
    lost_too = [unscored(2000 + n, labels={"version": "v8"}) for n in range(300)]
    ended = compared(store_of(tmp_path, *kept, *lost, *lost_too), "--margin", "1", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["answer"]) == (1, "worse")
    assert found["counts"][1] == {"scored": 300, "failed": 300, "unscored": 300}
    assert found["unscored_interval"][0] > 0.2


def test_scores_of_two_evaluators_are_not_compared(tmp_path: Path, compared: Compared) -> None:
    other = [scored(1000 + n, 1, labels={"version": "v8"}, fingerprint="f2") for n in range(10)]
    path = store_of(tmp_path, *results(400, 4, 4), *other)
    ended = compared(path)
    ended.fails("--evaluator must name one of the 2 that judged: f1 (judge-1), f2 (judge-1)")
    assert compared(path, "--evaluator", "f1", "--margin", "1").code == 0


def test_commands_read_the_store_and_move_no_cursor(tmp_path: Path, command: Command) -> None:
    fill(tmp_path / "s")
    evidence = {"claims": [{"claim_span": "\x1b[2J", "supported": False, "justification": "\u202e"}]}
    result = scored(50, 1, labels={"app": "\x1b[31m"}, justification="\x1b]0;x\x07")
    StoreFile(tmp_path / "s").write(result_record(result, evidence=evidence))
    store = ("--store", tmp_path / "s")
    ended = command("export", *store, "--metric", "relevance", "--label", "app=support", "--format", "csv")
    assert len(ended.done().out.splitlines()) == 11
    views = command("export", "--views", "clickhouse", "--bootstrap-servers", "kafka:9092").done().out
    assert "kafka_broker_list = 'kafka:9092', kafka_topic_list = 'qa.scores'" in views
    said = command("show", "e0", *store).done().out
    assert "question:\n    Where is the Dustwren?" in said
    assert "relevance 1: Because." in said
    shown = command("show", scored(0, 1, seconds=0.0).result_id, "--json", *store).done()
    assert json.loads(shown.out)["texts"]["answer"] == "In the cupboard."
    hostile = command("show", "e50", *store).done().out
    assert re.search(r"[\x00-\x08\x0b-\x1f\u202e]", hostile) is None, "a text moves the cursor"
    command("show", "nobody", *store).fails("no verdict on nobody", code=1)
    assert "the store has no drops" in command("incident", *store).done().out
    command("show", "e0", "--store", tmp_path / "none").fails("--agents store", code=1)


def _file(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(one) for one in rows))
    return path


def test_a_file_of_labels(tmp_path: Path, command: Command) -> None:
    """40 of 80 results labelled: refused unless they are a random sample, or have a probability."""
    made = [scored(number, 2 + 2 * (number % 2)) for number in range(80)]
    results = _file(tmp_path / "results.jsonl", (one.model_dump(mode="json") for one in made))
    rows = [{"event_id": one.event_id, "score": one.score - 1} for one in made[:40]]
    labels = _file(tmp_path / "people.jsonl", rows)
    call = ("calibrate", results, "--labels", labels)
    ended = command(*call).done()
    assert "not chosen with a known probability" in ended.out
    assert "kappa 0.67" in ended.out  # squares: 1 of 5 + 10 - 2 * 2 * 3 expected
    assert "People would give 2.00 (" in command(*call, "--random").out
    _file(labels, [one | {"probability": 0.5} for one in rows])
    told = json.loads(command(*call, "--json").out)
    assert told["people"]["mean"] == pytest.approx(2)
    _file(labels, [one | {"probability": 2} for one in rows])
    command(*call).fails("line 1: probability must be above 0 and at most 1, got '2'")
    _file(labels, [one | {"score": one["score"] == 3} for one in rows])
    passing = command(*call, "--random", "--pass-from", "4")
    assert "People would say true of 50% (" in passing.out
    assert "Rogan and Gladen's formula, without an interval: 50%" in passing.out
    _file(labels, [rows[0] | {"score": "soon"}])
    refused = command(*call, "--pass-from", "4")
    assert "'soon' is no score of relevance (neither a number nor true or false); correct it" in refused.err
    _file(labels, [one | {"score": one["score"] if place > 4 else None} for place, one in enumerate(rows)])
    assert "5 labels are left out: cannot say; the estimate is of the other" in command(*call, "--random").out


def test_labels_of_a_file_weigh_by_the_probability_of_their_own_answer(
    tmp_path: Path, command: Command
) -> None:
    """People give 1 to those judged 1 of 4 times, and 3 to others: (4 * 1 + 1 * 3) / 5 = 1.4."""
    made = [scored(number, 4, probability=0.25 if number % 2 else 1.0) for number in range(80)]
    results = _file(tmp_path / "results.jsonl", (one.model_dump(mode="json") for one in made))
    rows = [{"event_id": one.event_id, "score": 3 - 2 * (number % 2)} for number, one in enumerate(made)]
    labels = _file(tmp_path / "people.jsonl", rows)
    told = json.loads(command("calibrate", results, "--labels", labels, "--json").out)
    assert told["people"]["mean"] == pytest.approx(1.4)
