"""The explorer's answers; evidence is located in the texts without losing a character."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from streams.settings.outputs import BasicAuthSettings
from streams.store.records import milliseconds
from streams.store.views.evidence import EvidenceItem, Links, items_of, pieces
from streams.store.views.explorer import Explorer
from streams.web.access import BasicAuth
from tests.streams.results import at, scored
from tests.streams.store.records import StoreFile, result_record, task_record
from tests.streams.store.views.serving import NOW, TRACES, explorer, fill, get


@pytest.mark.parametrize(
    ("query", "count", "first"),
    [
        ("status=scored", 20, 1),
        ("", 22, 1),
        ("order=best&status=scored", 20, 5),
        ("min=2&max=3", 8, 2),
        ("label=app=support", 10, 1),
        ("label=app=support&label=tenant=a%26b%3Dc&max=1", 2, 1),
        ("label=app=nobody", 0, None),
        ("status=failed&order=newest", 1, None),
        ("q=dustwren", 1, 1),
        ("q=dust", 1, 1),
        ("q=dustwren+garage", 0, None),
        ("event=e3", 1, 4),
        ("since=2025-03-14T14:10:00Z&status=scored", 10, 1),
        ("since=2h&until=2025-03-14T14:01:00Z&status=scored", 1, 1),
        ("evaluator=f1&metric=relevance", 22, 1),
        ("evaluator=f2", 0, None),
        ("correction=any", 0, None),
        ("replay=1", 0, None),
    ],
)
async def test_filters(tmp_path: Path, query: str, count: int, first: int | None) -> None:
    path = tmp_path / "s"
    fill(path)
    async with explorer(path) as (session, url):
        page = await get(session, url, f"/explore/api/verdicts?{query}")
        assert page["count"] == count
        assert (page["rows"][0]["score"] if page["rows"] else None) == first
        found = await get(session, url, f"/explore/api/charts?{query}")
        scores = found["scores"]
        assert sum(sum(one["statuses"].values()) for one in scores.values()) >= count
        points = sum(point[4] for line in found["lines"] for point in line["points"])
        assert points == sum(sum(one["scores"].values()) for one in scores.values())
        assert sum(judged for _, _, judged in found["cost"]) == count


async def test_lists_have_question_and_answer(tmp_path: Path) -> None:
    claim = {"claim_span": "It floats.", "supported": False, "relevant": True}
    first, second = scored(1, 1), scored(2, 2)
    records = [
        result_record(first, 1, evidence={"claims": [claim]}), result_record(second, 2),
        task_record(first, question="Does\nit float?", answer="Yes.\n\nIt floats. " + "x" * 500),
    ]  # fmt: skip
    StoreFile(tmp_path / "s").write(*records)
    async with explorer(tmp_path / "s") as (session, url):
        rows = (await get(session, url, "/explore/api/verdicts"))["rows"]
    assert [row["question"] for row in rows] == ["Does it float?", None]
    assert rows[0]["answer"] == "Yes. It floats. " + "x" * 184  # 200 characters
    assert rows[1]["answer"] is None
    assert rows[0]["reason"].startswith("not supported: It floats")


async def test_a_new_value_of_a_product_label_is_marked(tmp_path: Path) -> None:
    """v8, which comes 60 minutes after v7, is marked; v7, an app, and what was there before are not."""
    labels = [{"prompt_version": f"v{7 + (number >= 60)}", "app": f"a{number}"} for number in range(90)]
    results = [scored(number, 3, labels=one, seconds=60.0 * number) for number, one in enumerate(labels)]
    StoreFile(tmp_path / "s").write(*(result_record(one, number) for number, one in enumerate(results)))
    marked = [{"at": milliseconds(at(3600)), "text": "prompt_version=v8"}]
    async with explorer(tmp_path / "s", product_labels=("prompt_version",)) as (session, url):
        for query, changes in (
            ("", marked), ("since=2025-03-14T14:30:00Z", marked), ("since=2025-03-14T15:10:00Z", []),
        ):  # fmt: skip
            assert (await get(session, url, f"/explore/api/labels?{query}"))["changes"] == changes
    # A value that pauses and returns within the chart's time is not new.
    back = scored(99, 3, labels={"prompt_version": "v7", "app": "a"}, seconds=6_000.0)
    StoreFile(tmp_path / "s").write(result_record(back, 99))
    async with explorer(tmp_path / "s", product_labels=("prompt_version",)) as (session, url):
        found = await get(session, url, "/explore/api/labels?since=2025-03-14T15:01:00Z")
    assert found["changes"] == []


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("min=x", "min must be a whole score"),
        ("since=yesterday", "since must be a time"),
        ("status=good", "status must be one of"),
        ("label=app", "label must be name=value"),
        ("order=upwards", "order must be one of"),
        ("skip=-1", "skip must be a number"),
        ("since=9999999999999d", "since must be a time"),
    ],
)
async def test_an_invalid_filter_is_named(tmp_path: Path, query: str, says: str) -> None:
    fill(tmp_path / "s")
    async with explorer(tmp_path / "s") as (session, url):
        assert says in (await get(session, url, f"/explore/api/verdicts?{query}", 400))["error"]


async def test_a_verdict_has_texts_links_and_range(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    result = scored(0, 1, seconds=0.0)
    async with explorer(tmp_path / "s") as (session, url):
        found = await get(session, url, f"/explore/api/verdict/{result.result_id}")
        assert found["texts"]["question"] == "Where is the Dustwren?"
        assert found["texts"]["answer"] == [["In the cupboard.", []]]
        assert found["links"]["record"] == "https://kafka.example/qa.scores/0?o=0"
        assert found["links"]["trace"] is None
        assert found["range"] == [1, 5]
        for key in ("0" * 32, "nonsense", "%00"):
            assert "nothing" in (await get(session, url, f"/explore/api/verdict/{key}", 404))["error"]


def test_links_escape_what_an_event_says() -> None:
    links = Links(TRACES, None, "qa.scores")
    source = {"topic": "t", "partition": 0, "offset": 1}
    made = links.of(
        {"trace_id": "a/../b?x=1#", "span_id": None, "source": source}, {"partition": 0, "offset": 0}
    )
    assert made["trace"] == "https://traces.example/t/a%2F..%2Fb%3Fx%3D1%23?s="
    assert made["record"] is None


async def test_without_a_store_the_page_says_what_to_do(tmp_path: Path) -> None:
    async with explorer(tmp_path / "none") as (session, url):
        assert "--agents store" in (await get(session, url, "/explore/api/choices", 503))["error"]


async def test_an_empty_store_is_shown(tmp_path: Path) -> None:
    StoreFile(tmp_path / "s").write()
    async with explorer(tmp_path / "s") as (session, url):
        for name in ("choices", "verdicts", "charts", "labels"):
            await get(session, url, f"/explore/api/{name}")


async def test_access_is_controlled(tmp_path: Path) -> None:
    """All pages require the password, or are refused with the reason; they take no writing methods."""
    fill(tmp_path / "s")
    auth = BasicAuth(BasicAuthSettings.model_validate({"username": "ops", "password": SecretStr("p")}), {})
    async with explorer(tmp_path / "s", auth=auth) as (session, url):
        for path in ("/explore", "/explore/explore.js", "/explore/api/verdicts"):
            async with session.get(url + path) as answer:
                assert answer.status == 401
    async with (
        explorer(tmp_path / "s") as (session, url),
        session.post(f"{url}/explore/api/verdicts", data=b"x") as answer,
    ):
        assert answer.status == 405
    async with (
        explorer(tmp_path / "s", refusal="set telemetry.basic_auth") as (session, url),
        session.get(f"{url}/explore/api/verdicts") as answer,
    ):
        assert (answer.status, await answer.text()) == (403, "set telemetry.basic_auth")


async def test_a_gate_answers_by_its_status(tmp_path: Path) -> None:
    """200 if the answer is the required one, 409 if not, to Argo's GET and to Flagger's POST."""
    results = [
        scored(number, 4 if number % 2 else 2, labels={"version": f"v{7 + number % 2}"})
        for number in range(400)
    ]
    StoreFile(tmp_path / "s").write(*(result_record(one, number) for number, one in enumerate(results)))
    query, made = "metric=relevance&label=version%3Dv7,v8&margin=1", list[Explorer]()
    async with explorer(tmp_path / "s", made=made) as (session, url):
        address = f"{url}/explore/api/compare?{query}"
        async with session.get(address) as answer:
            found = await answer.json()
        assert (answer.status, found["answer"], found["compared"]) == (200, "no worse", [200, 200])
        for require, status in (("no worse", 200), ("worse", 409), ("better", 400)):
            hook = session.post(f"{address}&require={require}", json={"name": "answers", "phase": "Waiting"})
            async with hook as answer:
                assert answer.status == status, require
        async with session.get(address.replace("v8", "v9")) as answer:
            assert answer.status == 400
            assert "version=v9 has no answer" in (await answer.json())["error"]
    key = ("relevance", "version", "v7", "v8")
    gauges = [("answer", key, 1), ("low", key, found["interval"][0]), ("high", key, found["interval"][1])]
    assert list(made[0].gauges()) == gauges
    made[0].now = lambda: NOW + timedelta(hours=2)
    assert list(made[0].gauges()) == []


def _item(number: int, *spans: tuple[str, int, int]) -> EvidenceItem:
    return EvidenceItem(number=number, kind="claim", upheld=True, text="", why="", spans=spans)


def test_a_text_is_cut_where_items_begin_and_end() -> None:
    """Items may overlap: "bc" is 1, "cd" is 2, so "c" has both."""
    items = [_item(1, ("answer", 1, 3)), _item(2, ("answer", 2, 4)), _item(3, ("reference", 0, 5))]
    assert pieces("abcde", "answer", items) == [("a", []), ("b", [1]), ("c", [1, 2]), ("d", [2]), ("e", [])]
    assert pieces("", "answer", items) == []


_SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


@given(st.text(max_size=30), _SPANS)
def test_pieces_are_the_text(text: str, spans: list[tuple[int, int]]) -> None:
    items = [
        _item(number, ("answer", start, end)) for number, (start, end) in enumerate(spans, 1) if start < end
    ]
    found = pieces(text, "answer", items)
    assert "".join(part for part, _ in found) == text
    marked = [numbers for part, numbers in found for _ in part]
    for place, numbers in enumerate(marked):
        assert numbers == [one.number for one in items if one.spans[0][1] <= place < one.spans[0][2]]


def test_claims_and_facts_are_read() -> None:
    """A claim is upheld if it is supported and relevant; its page is found by number."""
    claim = {
        "claim_span": "x", "claim_start": 0, "claim_end": 4, "pages": [7], "supported": True,
        "relevant": True, "page": 7,
        "page_start": 3, "page_end": 9, "justification": "says so",
    }  # fmt: skip
    [item] = items_of({"claims": [claim]}, ["page 7"])
    assert (item.kind, item.upheld, item.why) == ("claim", True, "says so")
    assert item.spans == (("answer", 0, 4), ("page 7", 3, 9))
    assert not items_of({"claims": [claim | {"relevant": False}]})[0].upheld
    fact = {"item": "f", "reference_start": 1, "reference_end": 2, "matched": False, "answer_span": None}
    [one] = items_of({"facts": [fact], "conclusions": [], "terms": []})
    assert (one.kind, one.upheld, one.spans) == ("fact", False, (("reference", 1, 2),))


@pytest.mark.parametrize(
    "evidence",
    [
        None,
        3,
        [],
        "x",
        {"claims": "x"},
        {"claims": [3, None]},
        {"facts": [{"reference_start": -1, "reference_end": "9"}]},
    ],
)
def test_evidence_of_another_form_shows_nothing_and_breaks_nothing(evidence: Any) -> None:
    for item in items_of(evidence):
        assert item.spans == ()
