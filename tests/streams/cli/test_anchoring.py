"""Anchors: which answers are taken, what is rebuilt of a stored verdict, and what status says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest

from schemas import Anchor, JudgeTask
from streams.cli.past import Candidates, _line, _Saved, _status, _task, choose, worse_half
from streams.monitoring.anchors import AnchorWatch, Enrolment, anchor_id
from streams.monitoring.config import mean_of
from streams.store.records import text_row, unpacked
from tests.streams.results import at, scored, task_of


def stored(task: JudgeTask, *, excerpt: bool = False) -> dict[str, Any]:
    """The verdict of a task, as the store returns it."""
    texts = unpacked(text_row(task, "excerpt" if excerpt else "full")[2])
    result = orjson.loads(scored(int(task.event_id.removeprefix("e")), 4).model_dump_json())
    return {"result": result, "texts": texts}


@pytest.mark.parametrize(
    "texts",
    [
        {"reference": "R", "context": {"Page-1": "text"}},
        {"other_answer": "another", "fields": {"policy": "p", "labels.app": "a"}},
    ],
)
def test_the_task_is_rebuilt_from_a_stored_verdict(texts: dict[str, Any]) -> None:
    task = task_of(scored(1, 4), **texts).model_copy(update={"sampled_at": at(1), "occurred_at": at(1)})
    assert _task(stored(task)) == task


def test_texts_that_are_cut_or_kept_for_people_make_no_task() -> None:
    task = task_of(scored(1, 4))
    assert _task(stored(task, excerpt=True)) is None
    assert _task({**stored(task), "texts": None}) is None
    talk = task_of(scored(1, 4), messages=({"role": "user", "content": "hi"},))
    assert _task(stored(talk)) is None


def test_up_to_half_of_the_answers_are_bad_ones_and_more_only_if_good_ones_lack() -> None:
    """On 1 to 5 the bad ones are below 3; where a rise is worse, above 3."""
    tasks = {anchor_id(task): task for task in (task_of(scored(n, 4)) for n in range(20))}
    found: Candidates = {key: (task, float(1 + n % 5)) for n, (key, task) in enumerate(tasks.items())}
    is_bad = worse_half((1, 5), rising=False)
    chosen = [score for _, score in choose(found, 8, is_bad).values()]
    assert sum(map(is_bad, chosen)) == 4
    assert len(choose(found, 100, is_bad)) == 20
    # 8 of the 20 are bad, so of 15 at least 3 are; the half, 7, is taken.
    assert sum(is_bad(score) for _, score in choose(found, 15, is_bad).values()) == 7
    bad = {key: one for key, one in found.items() if is_bad(one[1])}
    assert len(choose(bad, 8, is_bad)) == 8
    rises = worse_half((1, 5), rising=True)
    assert [rises(score) for score in (None, 2, 3, 4)] == [False, False, False, True]


def test_status_tells_a_changed_evaluator_from_a_short_fallback() -> None:
    anchors = [
        Anchor(
            anchor_id=task.result_id,
            metric="relevance",
            task=task,
            evaluator=scored(1, 4).evaluator,
            scores=(4.0, 4.0, 4.0),
            known_bad=number < 9,
            enrolled_at=at(0),
        )
        for number, task in enumerate(task_of(scored(number, 4)) for number in range(30))
    ]
    enrolment = Enrolment.of(anchors)
    watch = AnchorWatch(enrolment.since)
    watch.configure(enrolment, mean_of(1, 5, min_drop=0.1))
    for second in range(200):
        watch.add(anchors[second % 30], 3.0, at(second))
    saved = {"f1": _Saved(at(200), watch), "f2": _Saved(at(200) + timedelta(minutes=50))}
    line = _line(_status("relevance", enrolment, saved))
    shift, numbers = line.split("; ")
    assert shift == "relevance: stricter by 1.00 since 2025-03-14 14:00 UTC"
    assert numbers.startswith("30 anchors (9 bad), 200 calls, mean difference -1.00 (95%: -1.")
    saved["f2"] = _Saved(at(200) + timedelta(minutes=70))
    assert "void: its evaluator has changed;" in _line(_status("relevance", enrolment, saved))
    assert _status("relevance", enrolment, {})["judge"] == "no calls yet"
