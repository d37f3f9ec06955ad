"""Rules and alerts on Prometheus' own engine, as shipped."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest

from benchmarks.drop_rule import WHOLE, AppHistory, Sums, condition, drop
from tests.rules.hurry import hurried
from tests.rules.rule_files import RULE_FILES, TEST_FILES, alerts, load
from tests.toolbox import run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(600)]

_BINS_AN_HOUR = 30
_STEP = "2m"
_HOURS = 16
_FALLS_AT_HOUR = 10
_WEIGHTS = (1.0, 5.0)
_SUMS = ("weight", "weighted", "weight_square", "weight_square_score", "weight_square_score_square")
_MEANS = {"support": (5, 5, 4, 4, 3), "search": (5, 4, 3, 2)}
"""Scores to draw from."""


def test_promtool_accepts_the_rules() -> None:
    """Without a remark of its linter."""
    run(tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)


def test_promtool_refuses_a_broken_rule(tmp_path: Path) -> None:
    """The check is one: a rule that does not parse fails it."""
    file = tmp_path / "rules.yaml"
    file.write_text(
        RULE_FILES[0].read_text(encoding="utf-8").replace("sum without", "sum wihtout"), encoding="utf-8"
    )
    with pytest.raises(AssertionError, match="parse error"):
        run(tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", file)


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)
def test_rules_do_what_their_tests_say(path: Path) -> None:
    """Numbers by hand; alerts fire, stay silent and recover."""
    run(tool("promtool"), "test", "rules", path)


def test_hurried_rules_do_the_same(tmp_path: Path) -> None:
    """With an hour made a minute, the tests of the drop alerts hold with an hour made a minute."""
    (tmp_path / "tests").mkdir()
    quality = next(path for path in TEST_FILES if path.stem == "quality")
    for path, name in ((quality, "tests/quality.yaml"), *((path, path.name) for path in RULE_FILES)):
        text = hurried(path.read_text(encoding="utf-8"), 60)
        (tmp_path / name).write_text(text, encoding="utf-8")
    run(tool("promtool"), "test", "rules", tmp_path / "tests" / "quality.yaml")


def test_the_simulated_rule_is_the_shipped_one(tmp_path: Path) -> None:
    """Over one scenario both measure the same drop (but for the edges of windows) and call it at the same times."""
    random = Random(7)
    apps = {name: [_bin(random, name, bin_) for bin_ in range(_HOURS * _BINS_AN_HOUR)] for name in _MEANS}
    histories = [AppHistory(bins, _BINS_AN_HOUR) for bins in apps.values()]
    samples: list[dict[str, object]] = []
    called = set()
    for half_hour in range(2 * 8, 2 * _HOURS - 1):
        end = half_hour * _BINS_AN_HOUR // 2
        time = f"{half_hour * 30}m"
        for hours in (1, 6):
            measured = drop(histories, end, hours)
            assert measured is not None
            for name, value, tolerance in (
                ("points", measured.points, 0.05),
                ("standard_error", measured.standard_error, 0.002),
                ("z", measured.z, 0.5),
            ):
                series = f'slice:judgestream_score_drop:{name}{hours}h{{slice="all"}}'
                expr = f"count(abs({series} - ({value:.6f})) < {tolerance})"
                samples.append(
                    {"expr": expr, "eval_time": time, "exp_samples": [{"labels": "{}", "value": 1}]}
                )
        holds = condition(histories, end, WHOLE)
        called.add(holds)
        expected = [{"labels": "{}", "value": 1}] if holds else []
        expr = f"count({alerts()['JudgestreamRelevanceDrop']['expr']})"
        samples.append({"expr": expr, "eval_time": time, "exp_samples": expected})
    assert called == {True, False}
    document = {
        "rule_files": [str(path) for path in RULE_FILES],
        "evaluation_interval": _STEP,
        "group_eval_order": load(TEST_FILES[0])["group_eval_order"],
        "tests": [{"interval": _STEP, "input_series": _series(apps), "promql_expr_test": samples}],
    }
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    run(tool("promtool"), "test", "rules", file)


def _bin(random: Random, app: str, bin_: int) -> Sums:
    """Two minutes of an app: answers of two weights, from hour 10 on mostly a point worse for two hours."""
    fallen = 0 <= bin_ - _FALLS_AT_HOUR * _BINS_AN_HOUR < 2 * _BINS_AN_HOUR
    w = w_x = w2 = w2_x = w2_x2 = 0.0
    for weight in _WEIGHTS:
        # The mix of apps moves through the hours.
        for _ in range(random.randint(0, 6 if app == "support" else 1 + bin_ // 100)):
            score = random.choice(_MEANS[app]) - (1 if fallen else 0)
            w += weight
            w_x += weight * score
            w2 += weight**2
            w2_x += weight**2 * score
            w2_x2 += (weight * score) ** 2
    return w, w_x, w2, w2_x, w2_x2


def _series(apps: dict[str, list[Sums]]) -> list[dict[str, str]]:
    labels = 'job="qa", instance="a", metric="relevance"'
    count = _HOURS * _BINS_AN_HOUR
    series = [
        {
            "series": f'judgestream_evaluator_info{{{labels}, fingerprint="f1", model="m"}}',
            "values": f"1x{count}",
        }
    ]
    for app, bins in apps.items():
        for index, name in enumerate(_SUMS):
            totals = accumulate((one[index] for one in bins), initial=0.0)
            series.append(
                {
                    "series": f'judgestream_score_{name}_total{{{labels}, app="{app}"}}',
                    "values": " ".join(f"{total:g}" for total in totals),
                }
            )
    return series
