"""The synchronous library for scripts, notebooks and data frames."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from judge import BlockingJudge, Scored, Unscored
from judge.blocking import rows_of
from judge.errors import JudgeConfigurationError

pytestmark = pytest.mark.usefixtures("no_endpoint")

EVENT: dict[str, Any] = {
    "question": "Where is it?",
    "answer": "It is in Paris.",
    "reference": "It is in Paris.",
}


def test_one_and_many() -> None:
    """`score_many` returns results in the order of the events; closing the judge ends its thread."""
    with BlockingJudge() as judge:
        one = judge.score(EVENT, "coverage")
        many = list(judge.score_many([EVENT, {**EVENT, "answer": " "}] * 3, "coverage", concurrency=2))
    assert isinstance(one, Scored)
    assert one.score == 5
    assert [isinstance(result, Scored) for result in many] == [True, False] * 3
    assert not [thread for thread in threading.enumerate() if thread.name == "judgestream"]
    assert "BlockingJudge(model='offline-rules-1')" in repr(judge)


async def test_it_works_within_a_running_loop() -> None:
    """`BlockingJudge` works while an event loop runs in the calling thread, as in a notebook."""
    assert asyncio.get_running_loop().is_running()
    with BlockingJudge() as judge:
        assert judge.score(EVENT, "coverage").status == "scored"


def test_an_iteration_that_is_left_early_stops() -> None:
    """Leaving `score_many` early cancels its pending calls; the judge stays usable."""
    with BlockingJudge() as judge:
        for _ in judge.score_many([EVENT] * 100, "coverage", concurrency=4):
            break
        assert judge.score(EVENT, "coverage").status == "scored"


def test_a_wrong_argument_leaves_no_thread() -> None:
    """An invalid argument raises `JudgeConfigurationError` and leaves no thread."""
    with pytest.raises(JudgeConfigurationError, match="redact must be a list of secrets, emails"):
        BlockingJudge(redact="emails")
    assert not [thread for thread in threading.enumerate() if thread.name == "judgestream"]


class PandasFrame:
    """The two methods of a pandas frame that the library uses."""

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
    """`score_frame` adds columns, reads NaN as empty, and gives unscored rows a reason and no score."""
    frame = PandasFrame([{**EVENT, "trace_id": float("nan")}, {**EVENT, "reference": None}])
    with BlockingJudge() as judge:
        table = judge.score_frame(frame, "coverage")
    first, second = table.rows
    assert (first["status"], first["score"], first["reason"]) == ("scored", 5, None)
    assert first["justification"].startswith("Fact: ")
    assert (second["status"], second["score"], second["reason"]) == ("unscored", None, "missing_input")


def test_an_invalid_row_does_not_fail_the_others() -> None:
    """An invalid row gets a reason.

    Numeric ids and labels become text, an array of pages a list, NaN an empty cell.
    """

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


def test_an_argument_that_is_no_frame_is_refused() -> None:
    """The error names the type of the argument."""
    with pytest.raises(TypeError, match="must be a pandas or Polars data frame, got list"):
        list(rows_of([EVENT]))


def test_the_result_types_are_the_librarys() -> None:
    """The result types are exported by `judge`."""
    with BlockingJudge() as judge:
        assert isinstance(judge.score({**EVENT, "answer": ""}, "coverage"), Unscored)
