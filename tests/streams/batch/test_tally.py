"""The summary of a judged file, and the comparison of two runs."""

from __future__ import annotations

import pytest

from schemas import Usage
from streams.batch.comparison import compare, paired_interval
from streams.batch.page import page
from streams.batch.tally import MetricTally, Tally, TokenCost
from tests.streams.results import failed, numbered, scored, unscored


def summary() -> MetricTally:
    """Return a summary of scores 5, 5, 2, 1, one unscored result and two failures."""
    found = MetricTally("relevance", (1, 5))
    for number, score in enumerate((5, 5, 2, 1)):
        found.add(scored(number, score, labels={"model": "a" if number < 2 else "b"}))
    found.add(unscored(7))
    found.add(failed(8))
    found.add(failed(9))
    return found


def test_numbers_are_shown_by_tenths_and_labels_by_name() -> None:
    """Numbers are counted by tenths of the range, labels by name.

    0.2 of 0 to 1 is in the third tenth, 1 in the last.
    """
    numbers = MetricTally("fluency", (0.0, 1.0))
    for number, value in enumerate((0.2, 0.29, 1.0)):
        numbers.add(numbered(number, value, metric="fluency"))
    assert numbers.as_json()["distribution"] == {"0.2-0.3": 2, "0.9-1": 1}
    assert numbers.as_json()["mean"] == pytest.approx(1.49 / 3)
    labels = MetricTally("refusal", (0, 3))
    for number, (label, score) in enumerate((("refused", 0), ("answered", 3), ("answered", 3))):
        labels.add(scored(number, score).model_copy(update={"kind": "label", "value": label}))
    assert labels.as_json()["distribution"] == {"refused": 1, "answered": 2}
    assert "  answered  " in "\n".join(labels.lines())
    assert "  answered  " in page("f", Tally([labels]), [])


def test_counts_means_and_reasons() -> None:
    """Mean (5 + 5 + 2 + 1) / 4 = 3.25; by model 5 and 1.5; the lowest scores are listed."""
    told = summary().as_json()
    assert (told["scored"], told["unscored"], told["failed"], told["mean"]) == (4, 1, 2, 3.25)
    assert told["distribution"] == {"1": 1, "2": 1, "5": 2}
    assert {value: part["mean"] for value, part in told["by_label"]["model"].items()} == {"a": 5.0, "b": 1.5}
    assert [one["score"] for one in told["worst"]] == [1, 2]
    assert sum(told["failed_reasons"].values()) == 2
    text = "\n".join(summary().lines())
    assert "7 results, 4 scored, mean 3.25" in text
    assert "model=b: 2 scored, mean 1.50" in text
    assert "1 (25%)" in text


def test_only_the_ten_lowest_are_kept() -> None:
    """Of 30 scores from 1 to 3, the first ten of score 1 are listed in the file's order."""
    found = MetricTally("relevance", (1, 5))
    for number in range(30):
        found.add(scored(number, number % 3 + 1))
    assert [bad.score for bad in found.worst] == [1] * 10
    assert [bad.event_id for bad in found.worst][:2] == [scored(0, 1).event_id, scored(3, 1).event_id]


def test_a_price_that_is_not_known_makes_the_sum_unknown() -> None:
    """One unknown price makes the total cost unknown; tokens are still summed."""
    spending = TokenCost()
    spending.add(Usage(input_tokens=10, output_tokens=1), 0.5)
    assert spending.cost_usd == 0.5
    spending.add(Usage(input_tokens=10), None)
    spending.add(Usage(input_tokens=10), 0.5)
    assert spending.input_tokens == 30
    assert spending.as_json()["cost_usd"] is None
    assert "price not known" in spending.line()


def test_all_failed() -> None:
    broken = MetricTally("relevance", (1, 5))
    assert not Tally([broken]).all_failed
    broken.add(failed(1))
    assert Tally([broken]).all_failed
    assert not Tally([summary()]).all_failed


def test_a_paired_difference_by_hand() -> None:
    """The interval of the mean paired difference.

    D = -1, -2, 0, -1: mean -1, variance 2/3, standard error sqrt(2/3/4) = 0.40825; t(3) = 3.18245: half width
    1.29923.
    """
    before = [scored(number, score) for number, score in enumerate((5, 5, 3, 4))]
    now = [scored(number, score) for number, score in enumerate((4, 3, 3, 3))]
    found = compare("relevance", [*before, scored(99, 5)], [*now, unscored(98)])
    assert (found.pairs, found.difference, found.better, found.worse) == (4, -1.0, 0, 3)
    assert found.interval == pytest.approx((-2.29923, 0.29923), abs=2e-3)
    assert not found.is_worse
    assert [(one.before, one.now) for one in found.fallen] == [(5, 3), (5, 4), (4, 3)]


def test_a_fall_beyond_chance_is_one() -> None:
    """Twenty pairs that fall by one or two points are significantly worse."""
    before = [scored(number, 5) for number in range(20)]
    now = [scored(number, 4 - number % 2) for number in range(20)]
    assert compare("relevance", before, now).is_worse
    assert not compare("relevance", now, before).is_worse


def test_no_pairs_no_interval() -> None:
    """Without pairs, or with one pair, there is no interval."""
    found = compare("relevance", [], [scored(1, 5)])
    assert (found.pairs, found.difference, found.interval, found.is_worse) == (0, None, None, False)
    assert "no event was scored in both runs" in found.text()
    assert paired_interval([1.0]) is None
