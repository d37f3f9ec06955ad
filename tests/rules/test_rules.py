"""The shipped rules and alerts on Prometheus' own engine.

The table of situations says what fires at the end, and that no other alert ever does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from generate.situations_page import TABLE
from tests.helm.chart import manifests, of_kind
from tests.rules.rule_files import RULE_FILES, TEST_FILES, hurried, load
from tests.toolbox import run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(600)]
_ALERT_LABELS = "alertname, agent, endpoint, instance, metric, namespace, period, reason, topic"
_INSTANCE = re.compile(r'instance="([^"]+)"')
_GONE, _GAP = "stale", "_"

_TABLE = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
_WITHOUT_SCORES = {f"judgestream-{name}" for name in ("scores", "scores-long", "drop", "objective")}
"""Groups whose rules have no input in the situations; they would take half of the time."""

Values = list[str]


def _plan(written: object, minutes: int) -> Values:
    """The value of each minute: `3`, `+2` (a minute) or `gap`, and from a minute on another: `+2, 60: +0`.

    `gone` is an absence that Prometheus noticed, `gap` one that it did not.
    """
    steps = [(0, "")]
    for part in str(written).split(","):
        at, found, then = part.strip().rpartition(": ")
        steps.append((int(at) if found else 0, then))
    values: Values = []
    last = 0.0
    for (start, step), (end, _) in zip(steps, [*steps[1:], (minutes, "")], strict=True):
        for minute in range(start, end):
            if step in {"gone", "gap"}:
                values.append(_GONE if step == "gone" and minute == start else _GAP)
                continue
            last = last + float(step[1:]) if step.startswith("+") else float(step)
            values.append(f"{last:g}" if abs(last) < 100_000 else f"{last:.3f}")
    return values


def _fate(name: str, values: Values, fate: str) -> Values:
    """What becomes of a worker's series: `60: gone`, `60-70: gap`, `down`, or `loop` (up 1 minute in 5)."""
    start, _, what = fate.partition(": ")
    at, _, until = start.partition("-")
    ours = values[:]
    for minute in range(int(at), int(until or len(values))):
        up = what == "loop" and (minute - int(at)) % 5 == 4
        if what in {"gone", "gap"}:
            ours[minute] = _GONE if what == "gone" and minute == int(at) else _GAP
        elif name == "up":
            ours[minute] = "1" if up else "0"
        elif up:
            ours[minute] = str(60 * minute) if name == "process_start_time_seconds" else values[1]
        else:
            ours[minute] = _GONE
    return ours


def _input_series(row: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    minutes = int(row.get("minutes", 240))
    written = {**(_TABLE["calm"] if row.get("base", "calm") == "calm" else {}), **row.get("series", {})}
    for series, plan in written.items():
        if plan is None:
            continue  # taken out of the calm base
        full = series if "job=" in series else series.replace("{", '{job="qa", ', 1)
        values = _plan(plan, minutes)
        found = _INSTANCE.search(series)
        for pattern, fate in row.get("workers", {}).items():
            if found and fnmatch(found[1], pattern):
                values = _fate(series.partition("{")[0], values, fate)
        yield {"series": full, "values": " ".join(values)}


def _promtool_test(row: Mapping[str, Any]) -> dict[str, Any]:
    minutes = int(row.get("minutes", 240))
    fires = [{"alertname": name, **labels} for one in row.get("fires", []) for name, labels in one.items()]
    passing = list(row.get("passing", []))
    expected = [
        {"labels": "{" + ", ".join(f'{name}="{value}"' for name, value in one.items()) + "}", "value": 1}
        for one in fires
    ]
    names = "|".join(sorted({one["alertname"] for one in fires} | set(passing)))
    firing = 'ALERTS{alertstate="firing"}'
    ever = f'max_over_time(ALERTS{{alertstate="firing", alertname!~"{names}"}}[{minutes}m])'
    at = f"{minutes - 1}m"
    asked = [
        {"expr": f"group by ({_ALERT_LABELS}) ({firing})", "eval_time": at, "exp_samples": expected},
        {"expr": f"group by (alertname) ({ever})", "eval_time": at, "exp_samples": []},
    ]
    series = list(_input_series(row))
    return {"name": row["what"], "interval": "1m", "input_series": series, "promql_expr_test": asked}


def test_promtool_accepts_the_rules() -> None:
    run(tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)
def test_the_promtool_tests_pass(path: Path) -> None:
    run(tool("promtool"), "test", "rules", path)


def test_hurried_rules_do_the_same(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    quality = next(path for path in TEST_FILES if path.stem == "quality")
    for path, name in ((quality, "tests/quality.yaml"), *((path, path.name) for path in RULE_FILES)):
        text = hurried(path.read_text(encoding="utf-8"), 60)
        (tmp_path / name).write_text(text, encoding="utf-8")
    run(tool("promtool"), "test", "rules", tmp_path / "tests" / "quality.yaml")


@pytest.mark.parametrize("row", _TABLE["situations"], ids=lambda row: row["what"])
def test_in_each_situation_these_alerts_fire_and_no_other(row: dict[str, Any], tmp_path: Path) -> None:
    """The alerts of the table fire at the end, and no other ever; a row may name values of the chart."""
    if "chart" in row:
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(row["chart"]), encoding="utf-8")
        shown = manifests("--set=prometheusRule.enabled=true", f"--values={tmp_path / 'values.yaml'}")
        documents = [one["spec"] for one in of_kind(shown, "PrometheusRule")]
    else:
        documents = [load(path) for path in RULE_FILES]
    groups = [
        group
        for document in sorted(documents, key=lambda one: "alert" in one["groups"][0]["rules"][0])
        for group in document["groups"]
        if group["name"] not in _WITHOUT_SCORES
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    order = [group["name"] for group in groups]
    head = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "group_eval_order": order}
    document = {**head, "tests": [_promtool_test(row)]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    run(tool("promtool"), "test", "rules", tmp_path / "test.yaml")
