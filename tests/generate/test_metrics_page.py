from __future__ import annotations

import json
from math import sqrt
from pathlib import Path

import pytest

from generate.metrics_page import EXAMPLES, LABEL_MEANINGS, reference
from streams.telemetry.catalogue import CATALOGUE, LABELS, SUMS
from tests.toolbox import run, tool


def test_every_metric_and_label_is_explained() -> None:
    """Each metric of the catalogue has a row, and each label in use a meaning."""
    page = reference()
    assert all(f"| `{spec.name}` | {spec.type} |" in page for spec in CATALOGUE)
    used = {label for spec in CATALOGUE for label in spec.labels} - {LABELS}
    assert LABEL_MEANINGS.keys() == used


def test_the_examples_use_all_six_sums() -> None:
    text = " ".join(expr for _, expr in EXAMPLES.values())
    assert [name for name in SUMS if f"judgestream_score_{name}_total[" not in text] == []


@pytest.mark.tools
def test_the_examples_give_the_numbers_that_they_promise(tmp_path: Path) -> None:
    """A 4 sampled at p = 1/2 and a 1 sampled at p = 1 arrive each minute for an hour.

    A minute adds w = 2 + 1 = 3, wx = 8 + 1 = 9, wx² = 32 + 1 = 33, w² = 4 + 1 = 5, w²x = 16 + 1 = 17, w²x² =
    64 + 1 = 65. Over 60 minutes: mean = 9 / 3 = 3; n = 180² / 300 = 108; spread = sqrt(33/3 - 9) = sqrt(2);
    squares = 60 * (65 - 2*3*17 + 9*5) = 480, hence error = sqrt(480 * 108/107) / 180.
    """
    steps = {
        "weight": 3,
        "weighted": 9,
        "weighted_square": 33,
        "weight_square": 5,
        "weight_square_score": 17,
        "weight_square_score_square": 65,
    }
    expected = {
        "Weighted mean": 3.0,
        "Effective sample size": 108.0,
        "Standard error of the mean": sqrt(480 * 108 / 107) / 180,
        "Spread of the scores": sqrt(2),
    }
    assert expected.keys() == EXAMPLES.keys()
    document = {
        "fuzzy_compare": True,
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {
                        "series": f'judgestream_score_{name}_total{{metric="relevance"}}',
                        "values": f"0+{step}x60",
                    }
                    for name, step in steps.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": EXAMPLES[title][1],
                        "eval_time": "60m",
                        "exp_samples": [{"labels": '{metric="relevance"}', "value": value}],
                    }
                    for title, value in expected.items()
                ],
            }
        ],
    }
    file = tmp_path / "examples.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")
    assert "SUCCESS" in run(tool("promtool"), "test", "rules", file)
