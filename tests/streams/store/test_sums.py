"""The store's sums equal the sums of its verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest

from schemas import Scored
from streams.monitoring.statistics.estimators import WeightedSums
from streams.store import charts, verdicts
from streams.store.charts import HOUR_MS
from streams.store.database import StoreReader
from streams.store.query import Filter
from streams.store.records import DAY_MS, milliseconds
from streams.store.writer import StoreWriter
from tests.streams.results import at, scored
from tests.streams.store.records import batch_of, result_record

HOURS = 80
_A, _M = ("app", "a"), ("model", "m")
_FILTERS = [
    Filter(labels=labels, since=since, until=until, lowest=lowest)
    for labels in ((), (_A,), (_A, _M), (("app", "nobody"),))
    for since, until in (
        (None, None),
        (milliseconds(at(7.4 * 3600)), None),
        (milliseconds(at(20 * 3600)), milliseconds(at(61.7 * 3600))),
        (milliseconds(at(30.2 * 3600)), milliseconds(at(30.4 * 3600))),
    )
    for lowest in (None, 3)
]


def _results() -> list[Scored]:
    """Return 400 answers over 80 hours, of two apps and three models; a tenth has no labels."""
    random = Random(1)
    return [
        scored(
            number, random.randint(1, 5), seconds=random.random() * HOURS * 3600,
            labels={"app": random.choice("ab"), "model": random.choice("mno")} if number % 10 else {},
        )
        for number in range(400)
    ]  # fmt: skip


def _fits(result: Scored, wanted: Filter) -> bool:
    moment = milliseconds(result.times.occurred_at)
    return (
        all(result.labels.get(name) == value for name, value in wanted.labels)
        and (wanted.since is None or moment >= wanted.since)
        and (wanted.until is None or moment < wanted.until)
        and (wanted.lowest is None or result.score >= wanted.lowest)
    )


@pytest.mark.parametrize("forgotten_hours", [0, 27])
def test_sums_are_those_of_the_verdicts(tmp_path: Path, forgotten_hours: int) -> None:
    """Sums equal the verdicts', for labels, whole and partial hours and days, and after retention."""
    writer = StoreWriter(tmp_path / "s")
    results = _results()
    for start in range(0, len(results), 50):  # unordered in time: batches add to existing cells
        writer.write(batch_of(*map(result_record, results[start : start + 50], range(50))))
    # Retention rounds down to the hour.
    cut = milliseconds(at(forgotten_hours * 3600))
    cut -= cut % HOUR_MS
    writer.delete_before(cut)
    writer.close()
    results = [one for one in results if milliseconds(one.times.occurred_at) >= cut]
    with StoreReader(tmp_path / "s").snapshot() as snapshot:
        for wanted in _FILTERS:
            fitting = [one for one in results if _fits(one, wanted)]
            assert verdicts.count(snapshot, wanted) == len(fitting), wanted
            for step in (HOUR_MS, DAY_MS):
                found = charts.charts(snapshot, wanted, step)
                assert sum(map(Counter.total, found.scores.values())) == len(fitting), wanted
                lines = [scores for line in found.lines.values() for scores in line.values()]
                assert sum(scores.total() for scores in lines) == len(fitting)
                parts: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
                for one in fitting:
                    for name, value in one.labels.items():
                        parts["relevance", name, value].append(one.score)
                assert {key: scores.total() for key, scores in found.labels.items()} == {
                    key: len(some) for key, some in parts.items()
                }
                for key, some in parts.items():
                    assert WeightedSums.of_counted(found.labels[key]).mean == pytest.approx(
                        sum(some) / len(some)
                    )
