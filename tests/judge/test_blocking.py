"""The library without an event loop: scripts, notebooks, data frames."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from judge import BlockingJudge, Scored, Unscored
from judge.blocking import rows_of
from judge.errors import JudgeConfigurationError

EVENT: dict[str, Any] = {
    "question": "Where is it?",
    "answer": "It is in Paris.",
    "reference": "It is in Paris.",
}


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


def test_one_and_many() -> None:
    """Results in the order of the events; the thread ends with the judge."""
    with BlockingJudge() as judge:
        one = judge.score(EVENT, "coverage")
        many = list(judge.score_many([EVENT, {**EVENT, "answer": " "}] * 3, "coverage", concurrency=2))
    assert isinstance(one, Scored)
    assert one.score == 5
    assert [isinstance(result, Scored) for result in many] == [True, False] * 3
    assert not [thread for thread in threading.enumerate() if thread.name == "judgestream"]
    assert "BlockingJudge(model='offline-rules-1')" in repr(judge)


async def test_it_works_within_a_running_loop() -> None:
    """As in a notebook, whose own loop runs while a cell does."""
    assert asyncio.get_running_loop().is_running()
    with BlockingJudge() as judge:
        assert judge.score(EVENT, "coverage").status == "scored"


def test_an_iteration_that_is_left_early_stops() -> None:
    """What was begun is cancelled; the judge continues."""
    with BlockingJudge() as judge:
        for _ in judge.score_many([EVENT] * 100, "coverage", concurrency=4):
            break
        assert judge.score(EVENT, "coverage").status == "scored"


def test_a_wrong_argument_leaves_no_thread() -> None:
    """The error is the library's own."""
    with pytest.raises(JudgeConfigurationError, match="redact must be a list of secrets, emails"):
        BlockingJudge(redact="emails")
    assert not [thread for thread in threading.enumerate() if thread.name == "judgestream"]


class PandasFrame:
    """What is used of pandas, which is no dependency: rows as dictionaries, and columns assigned."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def to_dict(self, *, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows

    def assign(self, **columns: list[Any]) -> PandasFrame:
        return PandasFrame(
            [
                row | {name: values[number] for name, values in columns.items()}
                for number, row in enumerate(self.rows)
            ]
        )


def test_a_data_frame_comes_back_with_columns() -> None:
    """NaN is an empty cell; a row that is not judged has a reason and no score."""
    frame = PandasFrame([{**EVENT, "trace_id": float("nan")}, {**EVENT, "reference": None}])
    with BlockingJudge() as judge:
        table = judge.score_frame(frame, "coverage")
    first, second = table.rows
    assert (first["status"], first["score"], first["reason"]) == ("scored", 5, None)
    assert first["justification"].startswith("Fact: ")
    assert (second["status"], second["score"], second["reason"]) == ("unscored", None, "missing_input")


def test_a_row_that_is_no_event_costs_no_other_its_verdict() -> None:
    """It says why; ids and labels may be numbers, an array of pages a list, NaN is nothing."""

    class Pages:
        def tolist(self) -> list[str]:
            return ["It is in Paris."]

    odd = {**EVENT, "event_id": 3.0, "labels.tier": 2.0, "labels.app": float("nan"), "context": Pages()}
    frame = PandasFrame([{**EVENT, "answer": float("nan")}, odd, {**EVENT, "answer": ""}])
    with BlockingJudge() as judge:
        table = judge.score_frame(frame, "coverage")
    assert [row["status"] for row in table.rows] == ["invalid", "scored", "unscored"]
    assert table.rows[0]["reason"] == "answer: field required"
    (fields,) = rows_of(PandasFrame([odd]))
    assert (fields["event_id"], fields["labels"]) == ("3", {"tier": "2"})
    assert fields["context"] == ["It is in Paris."]


def test_anything_else_is_no_frame() -> None:
    """With its type."""
    with pytest.raises(TypeError, match="must be a pandas or Polars data frame, got list"):
        list(rows_of([EVENT]))


def test_the_result_types_are_the_librarys() -> None:
    """So that a program needs one import."""
    with BlockingJudge() as judge:
        assert isinstance(judge.score({**EVENT, "answer": ""}, "coverage"), Unscored)
