"""The synchronous library for scripts, notebooks and data frames."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from judge import BlockingJudge, Scored
from judge.errors import JudgeConfigurationError
from judge.rows import fields_of

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
    with pytest.raises(JudgeConfigurationError, match="redact must be a list of secrets, emails"):
        BlockingJudge(redact="emails")
    assert not [thread for thread in threading.enumerate() if thread.name == "judgestream"]


def test_a_row_of_a_table_becomes_an_event() -> None:
    """Numeric ids and labels become text, an array of pages a list, NaN an empty cell."""

    class Pages:
        def tolist(self) -> list[str]:
            return ["It is in Paris."]

    odd = {**EVENT, "event_id": 3.0, "labels.tier": 2.0, "labels.app": float("nan"), "context": Pages()}
    fields = fields_of(odd)
    assert (fields["event_id"], fields["labels"]) == ("3", {"tier": "2"})
    assert fields["context"] == ["It is in Paris."]
