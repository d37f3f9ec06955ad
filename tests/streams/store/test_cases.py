"""What pages, queues and readers of a store answer: each line of `cases.jsonl` is a case of one function.

`python -m tests.streams.store.test_cases` writes what the cases give today; read the difference before you
commit it.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final

import pytest

from streams.batch.comparison import label_rows
from streams.errors import BadFilterError, SettingsError
from streams.store import query
from streams.store.records import TextsKept, text_row, unpacked
from streams.store.verdicts import EvidenceItem, items_of, links_of, pieces
from streams.store.views.incidents import LATEST, find, group, summary_of
from streams.store.views.labels import agreements, read_labels
from tests.streams.results import scored, task_of
from tests.streams.store.records import StoreFile, task_record
from tests.streams.store.views import serving
from tests.streams.store.views.serving import SCALES, fill_whole

FILE: Final = Path(__file__).parent / "cases.jsonl"


async def page(store: StoreFile, path: str) -> Any:
    """Return the status and JSON of a URL; of a list the event ids, and one whole line."""
    async with serving.review(store.path) as (session, url, _), session.get(url + path) as answer:
        found = await answer.json()
    for name in ("token", "raw", "result"):  # random; or as in the topic
        found.pop(name, None)
    if "rows" in found:
        found |= {"rows": found["rows"][:1], "events": [row["event_id"] for row in found["rows"]]}
    return [answer.status, found]


def labels(store: StoreFile, data: str, *, known: bool = True) -> Any:
    """Return what labels say in the terms of their metrics, or why they cannot be imported."""
    with store.snapshot() as snapshot:
        try:
            rows = label_rows(data.encode("latin-1"), Path("-"))
            found = read_labels(rows, snapshot, who="bob", scales=SCALES if known else {})
        except (BadFilterError, SettingsError) as error:
            return str(error)
    return [[one.score, one.kind, one.value, one.judge_score, one.judge_value] for one in found]


def matches(_: StoreFile, limit: int, *words: str) -> list[int]:
    texts = ("Dust.", "dust", "dustwren", "dust of a wren", "Dustwren")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        store = StoreFile(Path(folder) / "s")
        patch.setattr(query, "MAX_MATCHES", limit)
        store.write(*(task_record(scored(number, 4), answer=text) for number, text in enumerate(texts)))
        with store.snapshot() as snapshot:
            return query.matching_texts(snapshot, words)


def links(_: StoreFile, trace_id: str | None) -> Any:
    source = {"topic": "t/1", "partition": 0, "offset": 1}
    result = {"trace_id": trace_id, "span_id": None, "source": source}
    return links_of(result, {"partition": 0, "offset": 7}, serving.settings_of(Path("s")))


def cut(_: StoreFile, text: str, *spans: tuple[str, int, int]) -> Any:
    items = [
        EvidenceItem(number=number, kind="claim", upheld=True, text="", spans=(span,))
        for number, span in enumerate(spans, 1)
    ]
    return pieces(text, "answer", items)


def incidents(_: StoreFile, *alerts: tuple[str, float, dict[str, Any]], key: str = LATEST) -> Any:
    """Return the incidents of alerts, the latest first, and the one that a key means in each metric."""
    made = [serving.alert(name, raised, **further) for name, raised, further in alerts]
    found = group(made)[::-1]
    assert group([*made[::-1], *made]) == found[::-1], "the order and repetitions of alerts mean nothing"
    keys = {(key, metric): find(found, key, metric=metric) for metric in (None, "relevance", "coverage")}
    keys |= {(one.alert_id[0], None): find(found, one.alert_id) for one in made}
    return {
        "incidents": [summary_of(one) for one in found],
        "found": [[key, metric, one and one.incident_id] for (key, metric), one in keys.items()],
    }


def kept(_: StoreFile, texts: TextsKept, **fields: Any) -> Any:
    packed, words = text_row(task_of(scored(1, 3), **fields), texts)[2:]
    return [unpacked(packed), words]


def agreement(_: StoreFile, *said: Mapping[str, Any]) -> Any:
    """Return how many of each person's latest labels are the judge's score, by what chose the answers."""
    return [(one.policy, len(one.pairs), one.same) for one in agreements(said)]


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "agreement": agreement,
    "evidence": lambda _, evidence, *pages: items_of(evidence, pages),
    "incidents": incidents,
    "kept texts": lambda store, texts, fields: kept(store, texts, **fields),
    "labels": labels,
    "labels, without settings": partial(labels, known=False),
    "links": links,
    "matching texts": matches,
    "page": page,
    "pieces": cut,
}


async def given(store: StoreFile, case: Mapping[str, Any]) -> Any:
    found = FUNCTIONS[case["of"]](store, *case["given"])
    shown = await found if isawaitable(found) else found
    return json.loads(
        json.dumps(shown, default=lambda one: {name: getattr(one, name) for name in one.__slots__})
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> StoreFile:
    store = StoreFile(tmp_path_factory.mktemp("store") / "s")
    fill_whole(store)
    return store


@pytest.mark.parametrize("line", FILE.read_text("utf-8").splitlines(), ids=lambda line: line[:80])
async def test_a_case_gives_what_its_line_says(line: str, filled: StoreFile) -> None:
    case = json.loads(line)
    assert await given(filled, case) == case["gives"]


async def write() -> None:
    lines = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        store = StoreFile(Path(folder) / "s")
        fill_whole(store)
        made = [one | {"gives": await given(store, one)} for one in lines]
    FILE.write_text("".join(json.dumps(one) + "\n" for one in made), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(write())
