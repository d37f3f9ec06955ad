"""The explorer on loopback, and a store for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from streams.store.database import StoreReader
from streams.store.views.evidence import Links
from streams.store.views.explorer import Explorer
from streams.web.access import BasicAuth
from streams.web.port import Port
from tests.streams.results import START, failed, scored, unscored
from tests.streams.store.records import StoreFile, result_record, task_record

TRACES = "https://traces.example/t/{trace_id}?s={span_id}"
RECORDS = "https://kafka.example/{topic}/{partition}?o={offset}"


@asynccontextmanager
async def explorer(
    path: Path, *, auth: BasicAuth | None = None, refusal: str | None = None, product_labels: Any = ()
) -> AsyncIterator[tuple[ClientSession, str]]:
    """Serve a store on loopback; yield a client and the address."""
    port = Port(setting="x", host="127.0.0.1", port=0, auth=auth, tls=None)
    shown = Explorer(
        StoreReader(path),
        ranges={"relevance": (1, 5)},
        links=Links(TRACES, RECORDS, "qa.scores"),
        product_labels=product_labels,
        now=lambda: START + timedelta(hours=2),
    )
    app = port.application()
    shown.add_to(app, refusal=refusal)
    await port.start(app)
    try:
        async with ClientSession() as session:
            yield session, port.url
    finally:
        await port.stop()


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
    StoreFile(path).write(*(result_record(one, number) for number, one in enumerate(results)), texts)


async def get(session: ClientSession, url: str, path: str, status: int = 200) -> Any:
    async with session.get(f"{url}{path}") as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()
