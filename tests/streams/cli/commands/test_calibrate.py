"""`judgestream calibrate` of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import data_file
from tests.streams.cli.conftest import Command
from tests.streams.results import scored


def _file(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_file_of_labels(tmp_path: Path, command: Command) -> None:
    """40 of 80 results labelled: refused unless they are a random sample, or have a probability."""
    made = [scored(number, 2 + 2 * (number % 2)) for number in range(80)]
    results = tmp_path / "results.jsonl"
    results.write_text("\n".join(one.model_dump_json() for one in made))
    rows = [{"event_id": one.event_id, "score": one.score - 1} for one in made[:40]]
    labels = _file(tmp_path / "people.jsonl", rows)
    call = ("calibrate", results, "--labels", labels)
    ended = command(*call)
    assert ended.code == 0, ended.err
    assert "not chosen with a known probability" in ended.out
    assert "kappa 0.67" in ended.out  # squares: 1 of 5 + 10 - 2 * 2 * 3 expected
    assert "People would give 2.00 (" in command(*call, "--random").out
    _file(labels, [one | {"probability": 0.5} for one in rows])
    told = json.loads(command(*call, "--json").out)
    assert told["people"]["mean"] == pytest.approx(2)
    _file(labels, [one | {"probability": 2} for one in rows])
    refused = command(*call)
    assert refused.code == 2
    assert "line 1: probability must be above 0 and at most 1, got '2'" in refused.err
    _file(labels, [one | {"score": one["score"] == 3} for one in rows])
    passing = command(*call, "--random", "--pass-from", "4")
    assert "People would say true of 50% (" in passing.out
    assert "Rogan and Gladen's formula, without an interval: 50%" in passing.out
    assert command("calibrate", results).code == 2
    _file(labels, [one | {"score": one["score"] if place > 4 else None} for place, one in enumerate(rows)])
    assert "5 labels are left out: cannot say; the estimate is of the other" in command(*call, "--random").out


def test_real_labels(tmp_path: Path, command: Command) -> None:
    """Open-domain answers with human labels: people find more of them right than the offline judge."""
    events, labels = data_file("nq_events.jsonl"), data_file("nq_labels.jsonl")
    if events is None or labels is None:
        pytest.skip("nq_events.jsonl and nq_labels.jsonl are not in the shared data")
    some = tmp_path / "events.jsonl"
    some.write_text("\n".join(events.read_text().splitlines()[:300]))
    out = tmp_path / "results.jsonl"
    assert command("judge", some, "-m", "coverage", "-o", out).code == 0
    ended = command(
        "calibrate", out, "--labels", labels, "--score-column", "human_correct", "--pass-from", "3"
    )
    assert ended.code == 0, ended.err
    assert "People would say true of " in ended.out
    assert "model=newbing" in ended.out
