"""The store's sums equal the sums of its verdicts."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from schemas import Scored
from streams.store import sums
from streams.store.filters import Filter
from streams.store.items import milliseconds
from streams.store.reader import Reader
from streams.store.retention import forget_older
from streams.store.schema import HOUR_MS
from streams.store.writer import Writer
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
    writer = Writer(tmp_path / "s")
    results = _results()
    for start in range(0, len(results), 50):  # unordered in time: batches add to existing cells
        writer.write(batch_of(*map(result_record, results[start : start + 50], range(50))))
    # Retention rounds down to the hour.
    cut = milliseconds(at(forgotten_hours * 3600))
    cut -= cut % HOUR_MS
    forget_older(writer, cut)
    writer.close()
    results = [one for one in results if milliseconds(one.times.occurred_at) >= cut]
    with Reader(tmp_path / "s").asking() as asking:
        for wanted in _FILTERS:
            fitting = [one for one in results if _fits(one, wanted)]
            assert sums.count(asking, wanted) == len(fitting), wanted
            scores = sums.distribution(asking, wanted).get("relevance", {}).get("scores", {})
            assert sum(scores.values()) == len(fitting), wanted
            parts: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
            for one in fitting:
                for name, value in one.labels.items():
                    parts["relevance", name, value].append(one.score)
            found = sums.by_label(asking, wanted)
            assert {key: part.count for key, part in found.items()} == {
                key: len(some) for key, some in parts.items()
            }
            for key, some in parts.items():
                assert found[key].mean == pytest.approx(sum(some) / len(some))
