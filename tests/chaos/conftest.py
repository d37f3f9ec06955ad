from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.chaos.arena import LONG, SHORT, Size
from tests.chaos.programme import Programme, Row, aligned
from tests.integration.kafka import ApacheKafka

ROWS: pytest.StashKey[list[Row]] = pytest.StashKey()


@pytest.fixture(scope="session")
def size() -> Size:
    chosen = os.environ.get("CHAOS", "long")
    sizes = {"short": SHORT, "long": LONG}
    assert chosen in sizes, f"CHAOS must be short or long, got {chosen!r}"
    return sizes[chosen]


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def programme(
    request: pytest.FixtureRequest, kafka: ApacheKafka, size: Size, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Programme]:
    """All selected faults, started."""
    programme = Programme(kafka, size, tmp_path_factory.mktemp("faults"))
    request.config.stash[ROWS] = programme.rows
    asked = (item for item in request.session.items if not item.get_closest_marker("skip"))
    calls = (getattr(item, "callspec", None) for item in asked)
    programme.start([call.params["fault"] for call in calls if call is not None and "fault" in call.params])
    try:
        yield programme
    finally:
        await programme.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("faults")
    for line in aligned(rows):
        terminalreporter.write_line(line)
