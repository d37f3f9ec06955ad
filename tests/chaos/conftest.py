"""One Apache Kafka for the whole suite, an arena for each fault, and the table at the end."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.arena import LONG, SHORT, Arena, Judge, Row, Size
from tests.chaos.checker import Report
from tests.integration.kafka import ApacheKafka, KafkaUnavailableError

ROWS: pytest.StashKey[list[Row]] = pytest.StashKey()

Verdict = Callable[[str], Awaitable[Report]]


@pytest.fixture(scope="session")
def size() -> Size:
    """Short with CHAOS=short, long otherwise."""
    chosen = os.environ.get("CHAOS", "long")
    sizes = {"short": SHORT, "long": LONG}
    assert chosen in sizes, f"CHAOS must be short or long, got {chosen!r}"
    return sizes[chosen]


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """Apache Kafka; a test that stops it starts it again."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    unavailable: str | None = None
    try:
        kafka.start()
    except KafkaUnavailableError as error:
        unavailable = str(error)
    if unavailable is not None:
        pytest.fail(unavailable, pytrace=False)
    try:
        yield kafka
    finally:
        kafka.stop()


@pytest.fixture
async def arena(kafka: ApacheKafka, tmp_path: Path, size: Size) -> AsyncIterator[Arena]:
    """Topics and a judge, no worker yet."""
    judge = Judge(tmp_path / "judge.log")
    await judge.start()
    arena = Arena(kafka, tmp_path, judge, size)
    try:
        await arena.create_topics()
        yield arena
    finally:
        await arena.close()
        await judge.kill()


@pytest.fixture
def verdict(arena: Arena, request: pytest.FixtureRequest) -> Verdict:
    """Waits for the end, adds a line to the table, and fails where something is lost or invented."""
    started = time.monotonic()

    async def pronounce(fault: str) -> Report:
        report = await arena.settle()
        rows = request.config.stash.setdefault(ROWS, [])
        rows.append(Row(fault, report, time.monotonic() - started))
        logs = "\n".join(f"{worker.name}:\n{worker.tail()}" for worker in arena.workers)
        assert not report.problems, f"{report}\n{logs}"
        assert report.read == arena.size.events
        return report

    return pronounce


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table."""
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("faults")
    head = ("fault", "events", "results", "dead letters", "duplicates", "lost", "other problems", "seconds")
    table = [head] + [
        (
            row.fault,
            str(row.report.read),
            str(row.report.results),
            str(
                row.report.dead_letters
                + row.report.outcomes["undecodable"]
                + row.report.outcomes["unroutable"]
            ),
            str(row.report.duplicates),
            str(row.report.lost),
            str(len(row.report.problems)),
            f"{row.seconds:.0f}",
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    for line in table:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        terminalreporter.write_line("  ".join(cells))
