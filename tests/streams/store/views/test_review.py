"""The review queue, its access control, and labels as files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from schemas import Label
from streams.batch.comparison import label_rows
from streams.errors import BadFilterError
from streams.store import verdicts
from streams.store.query import Filter
from streams.store.views.export import flat
from streams.store.views.labels import all_labels, exported, read_labels
from streams.store.views.review import TOKEN_HEADER, Task, choose
from tests.streams.results import scored
from tests.streams.store.records import StoreFile, result_record
from tests.streams.store.views.serving import SCALES, driven, fill, get, of_kinds, review

_RESULT = scored(7, 3, seconds=420.0)


def test_a_random_sample_has_a_known_probability_and_every_verdict_its_chance(tmp_path: Path) -> None:
    """A sample of 4 of 20 has probability 0.2; over all places to start, each verdict is drawn 4 times."""
    fill(tmp_path / "s")
    with StoreFile(tmp_path / "s").snapshot() as snapshot:

        def drawn(size: int, start: bytes, **wanted: Any) -> list[Task]:
            return choose(snapshot, Filter(**wanted), kind="random", size=size, start=start)

        everything = [task.result_id for task in drawn(20, b"\0" * 16)]
        samples = [drawn(4, bytes.fromhex(result_id)) for result_id in everything]
        assert {task.selection.probability for tasks in samples for task in tasks} == {0.2}
        times = Counter(task.result_id for tasks in samples for task in tasks)
        assert times == dict.fromkeys(everything, 4)
        assert len(times) == 20
        assert drawn(4, b"\xff" * 16) == drawn(4, b"\0" * 16)  # behind the last comes the first
        whole = drawn(500, b"\0" * 16, metric="relevance", lowest=5)
        assert [task.selection.probability for task in whole] == [1.0] * 4
        assert {task.selection.frame for task in whole} == {"lowest=5"}
        assert drawn(4, b"\0" * 16, metric="none") == []


def test_doubtful_ones_come_first_and_do_not_crowd_out_the_extremes(tmp_path: Path) -> None:
    """The rest are the lowest and the highest scores in turn, without repetition."""
    marked = [{"corrections": [{"kind": "x", "detail": ""}]} if number < 20 else {} for number in range(40)]
    StoreFile(tmp_path / "s").write(
        *(result_record(scored(number, 1 + number % 5), number, **one) for number, one in enumerate(marked))
    )
    with StoreFile(tmp_path / "s").snapshot() as snapshot:
        tasks = choose(snapshot, Filter(), kind="doubt", size=10, start=b"")
        rows = [verdicts.one(snapshot, task.result_id) or {} for task in tasks]
    assert len({task.result_id for task in tasks}) == 10
    assert all(task.selection.probability is None for task in tasks)
    assert all(row["corrected"] for row in rows[:5])
    assert {row["score"] for row in rows[5:]} == {1, 5}


async def test_labels_are_taken_from_the_own_page_alone_with_how_a_verdict_was_chosen(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    body: dict[str, Any] = {"result_id": _RESULT.result_id, "score": 1, "note": "no"}
    async with review(tmp_path / "s") as (session, url, published):
        queue = await get(session, url, "/review/api/queue?kind=random&size=20&metric=relevance")

        async def send(sent: Any, **headers: str) -> int:
            headers = {"Content-Type": "application/json", TOKEN_HEADER: queue["token"]} | headers
            address, data = f"{url}/review/api/label", json.dumps(sent)
            async with session.post(address, data=data, headers=headers) as answer:
                assert answer.status == 200 or (await answer.json())["error"]
                return answer.status

        foreign = ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"})
        for refused in ({TOKEN_HEADER: "guess"}, {"Content-Type": "text/plain"}, *foreign):
            assert await send(body, **refused) == 403
        for wrong in (
            {"score": 6}, {"score": 2.5}, {"score": True}, {"x": 1}, {"result_id": "0" * 32},
            {"result_id": None}, {"note": "x" * 3_000},
        ):  # fmt: skip
            assert await send(body | wrong) == 400, wrong
        assert published == []
        assert await send(body) == 200
        [label] = published
        assert (label.score, label.judge_score, label.who, label.note) == (1, 3, "ann", "no")
        assert label.selection.model_dump(exclude={"drawn_at"}) == {
            "kind": "random", "probability": 1.0, "policy": "random/1", "frame": "", "drawn": 20,
        }  # fmt: skip
        again = await get(session, url, "/review/api/queue?kind=random&size=20")
        assert [one["labelled"] for one in again["tasks"]].count(True) == 1
        ids = of_kinds(tmp_path / "s")
        published.clear()
        for metric, chosen in (("refusal", "refused"), ("toxicity", False), ("near", 0.75), ("near", None)):
            assert await send({"result_id": ids[metric], "score": chosen}) == 200
    assert [(one.kind, one.score, one.value, one.judge_score, one.judge_value) for one in published] == [
        ("label", 0, "refused", 1, "partly"),
        ("boolean", 1, False, 0, True),
        ("number", 1, 0.75, 0, 0.4),
        ("number", None, None, 0, 0.4),
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_labels_go_out_and_come_back_the_same(tmp_path: Path, form: Literal["csv", "jsonl"]) -> None:
    """Labels of every kind, and notes of every form; importing an export again adds nothing."""
    path, ids = tmp_path / "s", of_kinds(tmp_path / "s")
    fill(path)
    given: list[dict[str, Any]] = [
        {"result_id": ids["refusal"], "score": "refused"},
        {"result_id": ids["toxicity"], "score": "FALSE"},
        {"result_id": ids["near"], "score": "0.75"},
        {"result_id": _RESULT.result_id, "score": 2, "note": '=HYPERLINK("b"),\nc'},
        {"event_id": "e3", "metric": "relevance", "score": None, "labelled_at": "2026-01-01T00:00:00Z"},
    ]
    data = "\n".join(map(json.dumps, given)).encode()
    with StoreFile(path).snapshot() as snapshot:
        labels = read_labels(label_rows(data, Path("-")), snapshot, who="bob", scales=SCALES)
    StoreFile(path).write(*labels)
    with StoreFile(path).snapshot() as snapshot:
        text = exported(snapshot, form)
        again = read_labels(label_rows(text.encode(), Path("-")), snapshot, who="x", scales=SCALES)
        stored = [Label.model_validate(one) for one in all_labels(snapshot)]
        but = {"note"} if form == "csv" else set()  # where a formula has become text
        kept, back = ([one.model_dump(exclude=but) for one in some] for some in (stored, again))
        assert back == kept
        assert {one.label_id for one in stored} == {one.label_id for one in labels}
        assert form == "jsonl" or ",toxicity,false,true,,bob," in text
        assert form == "jsonl" or "'=HYPERLINK" in text, "a formula stays text in a spreadsheet"
        # Without settings the scales of labels are unknown, that of true and false is the verdict's.
        assert [one.score for one in read_labels([(1, given[1])], snapshot, who="bob", scales={})] == [1]
        with pytest.raises(BadFilterError, match="unknown: name the settings with --config"):
            read_labels(label_rows(data, Path("-")), snapshot, who="bob", scales={})
        rows = [flat(row) for row in verdicts.every(snapshot, Filter()) if row[1]]
    assert {(row["event_id"], row["metric"], row["human_score"], row["human_label"]) for row in rows} == {
        ("e3", "relevance", None, None),
        ("e7", "relevance", 2, None),
        ("e100", "refusal", 0, "refused"),
        ("e100", "toxicity", 1, "false"),
        ("e100", "near", 0.75, None),
    }


@pytest.mark.tools
@pytest.mark.timeout(120)
async def test_labels_are_given_by_keys_and_come_out_beside_their_verdicts(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    of_kinds(tmp_path / "s")
    async with review(tmp_path / "s") as (_, url, published):
        seen = await driven(url, tmp_path)
    assert not any([*seen["faults"].values(), seen["said"], seen["hidden"]]), seen
    assert seen["shown"] == 1
    assert max(seen["share-light"], seen["share-phone"]) <= 0.2
    assert [(label.score, label.note) for label in published[:2]] == [(2, "wrong page"), (None, "")]
    assert [label.value for label in published[2:]] == ["refused", True, 0.25], (
        "expected a label, a boolean and a number"
    )
    with StoreFile(tmp_path / "s").snapshot() as snapshot:
        rows = [flat(row) for row in verdicts.every(snapshot, Filter())]
    assert {row["result_id"]: row["human_score"] for row in rows if row["human_labels"]} == {
        one.result_id: one.value if isinstance(one.value, float) else one.score for one in published
    }
