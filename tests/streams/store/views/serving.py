"""Explorer and review page on loopback, and stores for them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from aiohttp import ClientSession

from schemas import Alert, Label, Scored, Selection
from streams.settings.tree import Settings
from streams.store import verdicts
from streams.store.views.explorer import Explorer
from streams.store.views.labels import HumanScore, label_of
from streams.store.views.review import Review
from streams.web.port import Port
from tests.loopback import on_loopback
from tests.streams import results
from tests.streams.results import START, at, failed, scored, unscored
from tests.streams.store.records import StoreFile, result_record, task_record
from tests.streams.worker.test_page import PICTURES_VARIABLE
from tests.toolbox import python_with, run, tool

NOW = START + timedelta(hours=2)
SCALES: Any = {
    "relevance": SimpleNamespace(score_range=(1, 5), labels={}),
    "near": SimpleNamespace(score_range=(0, 1), labels={}),
    "refusal": SimpleNamespace(score_range=(0, 2), labels={"answered": 2, "partly": 1, "refused": 0}),
    "toxicity": SimpleNamespace(score_range=(0, 1), labels={"true": 0, "false": 1}),
}
TRACES = "https://traces.example/t/{trace_id}?s={span_id}"
RECORDS = "https://kafka.example/{topic}/{partition}?o={offset}"


def settings_of(path: Path) -> Settings:
    kept = {"path": path, "trace_url": TRACES, "record_url": RECORDS, "product_labels": ["prompt_version"]}
    return Settings.model_validate({"store": kept})


def explorer_of(path: Path) -> Explorer:
    return Explorer(settings_of(path), SCALES, lambda: NOW)


@asynccontextmanager
async def served(
    shown: Explorer, *further: Review, refusal: str | None = None
) -> AsyncIterator[tuple[ClientSession, str]]:
    app = Port(setting="x", host="127.0.0.1", port=0, auth=None, tls=None).application()
    shown.add_to(app, refusal=refusal)
    for one in further:
        one.add_to(app)
    async with on_loopback(app) as address, ClientSession() as session:
        yield session, address


def explorer(path: Path, **access: Any) -> AbstractAsyncContextManager[tuple[ClientSession, str]]:
    return served(explorer_of(path), **access)


@asynccontextmanager
async def review(path: Path) -> AsyncIterator[tuple[ClientSession, str, list[Label]]]:
    published: list[Label] = []

    async def publish(label: Label) -> None:
        published.append(label)
        StoreFile(path).write(label)

    shown = explorer_of(path)
    async with served(shown, Review(explorer=shown, publish=publish, who="ann")) as (session, url):
        yield session, url, published


async def driven(address: str, folder: Path, *walked: str) -> Any:
    """Return what `drive.py` prints of a page; its pictures are in the folder, or where a variable says."""
    python, chromium = python_with("axe_playwright_python"), tool("chromium")
    drive, pictures = Path(__file__).parent / "drive.py", os.environ.get(PICTURES_VARIABLE, folder)
    return json.loads(await asyncio.to_thread(run, python, drive, address, chromium, pictures, *walked))


def fill(path: Path) -> None:
    """Store twenty scored answers (1, 2, 3, 4, 5 in turn), one unscored and one failed."""
    results: list[Any] = [
        scored(
            number, 1 + number % 5, labels={"app": "support" if number % 2 else "docs", "tenant": "a&b=c"},
            seconds=number * 60.0,
        )
        for number in range(20)
    ]  # fmt: skip
    results += [unscored(20), failed(21)]
    texts = task_record(results[0], question="Where is the Dustwren?", answer="In the cupboard.")
    StoreFile(path).write(*results, texts)


def label(path: Path, results: Iterable[Scored], change: int, selection: Selection, **given: str) -> None:
    """Store labels that differ from the judge's scores by this much."""
    said: Any = {"who": "ann", "moment": NOW.isoformat(), "note": "", "selection": selection} | given
    with StoreFile(path).snapshot() as snapshot:
        found = [verdicts.one(snapshot, one.result_id) or {} for one in results]
    humans = [HumanScore(round(one["score"]) + change, "integer") for one in found]
    StoreFile(path).write(*(label_of(one, human, **said) for one, human in zip(found, humans, strict=True)))


async def get(session: ClientSession, url: str, path: str, status: int = 200) -> Any:
    async with session.get(f"{url}{path}") as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


def of_kinds(path: Path) -> dict[str, str]:
    """Store a verdict of each kind; return their ids by metric."""
    found = {"refusal": ("label", "partly", 1), "toxicity": ("boolean", True, 0), "near": ("number", 0.4, 0)}
    made = [
        scored(100, score, metric=metric).model_copy(update={"kind": kind, "value": value})
        for metric, (kind, value, score) in found.items()
    ]
    StoreFile(path).write(*made)
    return {one.metric: one.result_id for one in made}


def alert(
    name: str, raised: float, *, started: float = 0, kind: str = "drop", labels: Any = (), **further: Any
) -> Alert:
    """Return an alert that was raised this many seconds after START."""
    fields = {"labels": dict(labels), "fingerprint": "f1", "started_at": at(started), **further}
    return results.alert(f"{name:0<32}", kind, raised, **fields)


EVIL: Final = "[x](javascript:alert(1)) <script> `"
CLAIM: Final = {
    "claim_span": "It opens the garage.", "claim_start": 28, "claim_end": 48, "pages": [2], "page": 2,
    "page_start": 4, "page_end": 30, "supported": False, "relevant": True, "justification": EVIL,
}  # fmt: skip
ANSWER: Final = "The key is in the cupboard. It opens the garage.\n\n" + "long " * 200
TEXTS: Final[dict[str, Any]] = {
    "question": "Where is the\nDustwren key?",
    "answer": ANSWER,
    "context": {"Page-1": "No.", "Page-2": "So: The key hangs by the door."},
}


def fill_whole(store: StoreFile) -> None:
    """Store answers that get worse with a new prompt, of all statuses and kinds, with alerts and a label."""
    results = [
        scored(
            number, 1 + number % 3 if number >= 20 else 5 - number % 2, seconds=number * 300.0,
            labels={"app": "docs" if number % 2 else "a&b=c", "prompt_version": f"v{7 + (number >= 20)}"},
            justification=EVIL, probability=(1.0, 0.5)[number % 2], fingerprint=("f1", "f2")[number == 3],
        )
        for number in range(40)
    ]  # fmt: skip
    fact = {"item": "A fact.", "matched": True, "reference_start": 1, "reference_end": 4}
    coverage = scored(4, 3, metric="coverage", seconds=1200.0)
    records = [
        *map(result_record, results, range(40)),
        result_record(unscored(40, seconds=9000.0), 40),
        result_record(failed(41, seconds=9300.0), 41),
        result_record(unscored(42, metric="toxicity", seconds=9400.0), 44),
        result_record(scored(5, 2, replay_id="again"), 42),
        result_record(coverage, 43, evidence={"facts": [fact], "organization": 1}),
        task_record(coverage, **TEXTS, reference="A fact stands here."),
    ]
    corrections = [{"kind": "score_lowered", "detail": "5 to 1"}]
    records[30] = result_record(results[30], 30, corrections=corrections, evidence={"claims": [CLAIM]})
    records += [task_record(one, **TEXTS, offset=place) for place, one in enumerate(results[28:32], start=1)]
    whole, part = alert("a", 8400, started=6000), alert("b", 8700, started=6000, labels={"app": "docs"})
    store.write(*records, whole, part)
    of_kinds(store.path)
    label(store.path, [results[30]], 1, Selection(kind="random", probability=0.5), note="no")
