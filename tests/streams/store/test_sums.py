"""The store's sums equal the sums of its verdicts."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from schemas import Scored
from streams.store import charts, verdicts
from streams.store.charts import HOUR_MS
from streams.store.database import StoreReader
from streams.store.query import Filter
from streams.store.records import milliseconds
from streams.store.writer import StoreWriter
from tests.streams.results import at, scored
from tests.streams.store.records import StoreFile, batch_of, result_record

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


def _scale(_: str) -> tuple[float, float]:
    return 1, 5


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
            found, by_label = (draw(snapshot, wanted, _scale) for draw in (charts.charts, charts.by_label))
            numbers = [count for one in found["scores"].values() for count in one["scores"].values()]
            assert sum(numbers) == len(fitting), wanted
            assert sum(point[4] for line in found["lines"] for point in line["points"]) == len(fitting)
            parts: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
            for one in fitting:
                for name, value in one.labels.items():
                    parts["relevance", name, value].append(one.score)
            means = {tuple(row[:3]): (row[3], row[6]) for row in by_label["labels"]}
            assert means == {
                key: (pytest.approx(sum(some) / len(some), abs=1e-4), len(some))
                for key, some in parts.items()
            }


def test_a_mean_is_estimated_by_sampling_stratum(store: StoreFile) -> None:
    """A rule that judges all its answers (97 of score 5 an hour) beside one that judges 1% (score 1).

    The second hour has no answer of the rare one. With n judged answers of typical weight w, and E answers
    expected in an hour, a stratum counts as N = (n + 3) / (1 / w + 3 / E):

        first hour: gold 100 / (1 + 3 / 97) = 97, rest 5 / (1 / 100 + 3 / 100) = 125
                    mean = (97 * 5 + 125 * 1) / 222 = 2.7477
        second:     gold 97, rest 3 / (1 / 100 + 3 / 100) = 75, of mean 1
                    mean = (97 * 5 + 75 * 1) / 172 = 3.2558

    (4.92 and 5 unweighted; 2.68 and 5 weighted without strata.) Of the interval, the rest alone may be all of
    the scale, so it ends at 5. Gold's own one, of 97 equal scores, begins at 4.8425 (Wilson), the rest's at
    its mean. So the second hour's begins at

        3.2558 - sqrt(1.96^2 * ((97 * 1.7442)^2 / 100 + (75 * 2.2558)^2 / 3) + (97 * 0.1575)^2) / 172 = 2.1227

    By label, over both hours, strata count as what they are: (194 * 5 + 200 * 1) / 394 = 2.9695.
    """
    start = milliseconds(at(0))
    answers = [("gold", 5, 1.0, 3600.0 * hour + 30 * number) for hour in (0, 1) for number in range(97)]
    answers += [("rest", 1, 0.01, seconds) for seconds in (1.0, 1800.0)]
    store.write(
        *(
            result_record(
                scored(number, score, seconds=seconds, stratum=rule, probability=rate, labels={"app": "a"}),
                number,
            )
            for number, (rule, score, rate, seconds) in enumerate(answers)
        )
    )
    with store.snapshot() as snapshot:
        wanted = Filter(since=start - 8 * HOUR_MS)
        found, by_label = (draw(snapshot, wanted, _scale) for draw in (charts.charts, charts.by_label))
    assert found["lines"][0]["points"] == [
        (start, 2.7477, pytest.approx(1.8612, abs=1e-4), 5, 99),
        (start + HOUR_MS, 3.2558, pytest.approx(2.1227, abs=1e-4), 5, 97),
    ]
    assert by_label["labels"][0][:4] == ("relevance", "app", "a", 2.9695)
