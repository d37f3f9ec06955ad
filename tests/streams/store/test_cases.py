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

from streams.errors import BadFilterError
from streams.store import query
from streams.store.views.evidence import EvidenceItem, Links, items_of, pieces
from streams.store.views.labels import read_labels
from tests.streams.results import scored
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


def refused(store: StoreFile, data: str, *, known: bool = False) -> str:
    """Return why labels cannot be imported."""
    with store.snapshot() as snapshot, pytest.raises(BadFilterError) as error:
        read_labels(data.encode("latin-1"), snapshot, who="bob", scales=SCALES if known else {})
    return str(error.value)


def matches(_: StoreFile, limit: int, *words: str) -> list[int]:
    """Return which of five texts have the words, if so many are looked at."""
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
    return Links(serving.TRACES, serving.RECORDS, "qa.scores").of(result, {"partition": 0, "offset": 7})


def cut(_: StoreFile, text: str, *spans: tuple[str, int, int]) -> Any:
    """Return a text's pieces for items of one place each."""
    items = [
        EvidenceItem(number=number, kind="claim", upheld=True, text="", spans=(span,))
        for number, span in enumerate(spans, 1)
    ]
    return pieces(text, "answer", items)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "evidence": lambda _, evidence, *pages: items_of(evidence, pages),
    "label refused": refused,
    "label refused, with settings": partial(refused, known=True),
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
