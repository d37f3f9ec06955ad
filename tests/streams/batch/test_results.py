"""Results: their file, replaced when the new ones are complete; summary, comparison, HTML report."""

from __future__ import annotations

import asyncio
import csv
import gc
import io
import json
import re
from pathlib import Path

import pytest

from schemas import Failed, Scored, Unscored
from streams.batch.comparison import HumanLabel, agreements, compare, paired_interval
from streams.batch.results import Texts, open_results, page, page_row, partial_of, read_results
from streams.batch.sources import Format
from streams.batch.tally import MetricTally, Tally
from streams.errors import SettingsError
from streams.judging.metrics import build_metrics
from streams.settings.tree import Settings
from tests.streams.results import failed, numbered, scored, unscored
from tests.streams.store.views.serving import CLAIM, driven


def test_the_file_that_is_read_is_never_written(tmp_path: Path) -> None:
    source = tmp_path / "self.jsonl"
    source.write_text("events")
    (tmp_path / "link.jsonl").symlink_to(source)
    for name in ("self.jsonl", "link.jsonl", "../" + tmp_path.name + "/self.jsonl"):
        with pytest.raises(SettingsError, match="is the input file"):
            open_results(tmp_path / name, "jsonl", source=source, overwrite=True)
    assert source.read_text() == "events"


def test_results_that_are_there_stay_until_others_are_complete(tmp_path: Path) -> None:
    """Also if the other run wrote nothing."""
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    with pytest.raises(SettingsError, match=r"exists; add --resume .* or --overwrite"):
        open_results(out, "jsonl", source=None)
    assert open_results(out, "jsonl", source=None, overwrite=True).leave() is None
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    results = open_results(out, "jsonl", source=None, overwrite=True)
    results.write(scored(1, 4))
    assert out.read_text() == "old"
    results.finish()
    assert [one.result_id for one in read_results(out)] == [scored(1, 4).result_id]
    assert not partial_of(out).exists()


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_a_run_that_ended_early_is_resumed(tmp_path: Path, form: Format) -> None:
    out = tmp_path / f"out.{form}"
    first = open_results(out, form, source=None)
    first.write(scored(1, 4), scored(2, 5), failed(7))
    assert "3 results are in" in (first.leave() or "")
    with partial_of(out).open("a") as handle:
        handle.write('{"result_id": "cut')
    assert open_results(out, form, source=None, overwrite=True).done == frozenset()
    second = open_results(out, form, source=None)
    assert second.done == {scored(1, 4).result_id, scored(2, 5).result_id}
    second.write(scored(3, 1))
    second.finish()
    assert len(list(read_results(out))) == 3
    third = open_results(out, form, source=None, resume=True)
    assert len(third.done) == 3
    third.finish()
    assert len(list(read_results(out))) == 3
    assert form == "jsonl" or len(json.loads(out.read_text())) == 3


def test_tables_have_texts_and_labels(tmp_path: Path) -> None:
    from pyarrow import parquet

    one = scored(1, 4, labels={"model": "a"}, justification='Says "so",\nor not.')
    two = scored(2, 2, labels={"lang": "en"}, justification="=HYPERLINK(1)")
    forms: tuple[Format, ...] = ("csv", "parquet")
    for form in forms:
        results = open_results(tmp_path / f"out.{form}", form, source=None)
        results.write(one, failed(3), two)
        results.finish({one.result_id: Texts("Where?", "=1+1", "In Paris.")})
    found = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["score"] for row in found] == [4, None, 2]
    columns = ["status", "score", "reason", "justification", "question", "answer", "reference"]
    columns += ["labels.model", "labels.lang"]
    rows = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text(), newline=""))
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("scored", "4", 'Says "so", or not.', 'Says "so",\nor not.', "Where?", "'=1+1", "In Paris.", "a", ""),
        ("failed", "", "content_refused", "", "", "", "", "", ""),
        ("scored", "2", "'=HYPERLINK(1)", "'=HYPERLINK(1)", "", "", "", "", "en"),
    ]


def test_a_full_disk_closes_the_file_and_names_it(tmp_path: Path) -> None:
    """A write error is raised with the file's name, and nothing is left open (a warning is an error here)."""
    out = tmp_path / "out.jsonl"
    partial_of(out).symlink_to("/dev/full")
    results = open_results(out, "jsonl", source=None, overwrite=True)
    with pytest.raises(OSError, match=r"out\.jsonl\.partial"):
        results.write(*(scored(number, 4) for number in range(100)))
    del results
    gc.collect()


def test_a_file_that_cannot_be_resumed_is_named(tmp_path: Path) -> None:
    table, other = tmp_path / "out.csv", tmp_path / "out.jsonl"
    table.write_text("a,b")
    other.write_text('{"event_id": "1"}\n')
    for path, words in (
        (table, "only from JSON"),
        (other, "line 1 is not a judgestream result"),
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "out.jsonl", "not a writable folder"),
    ):
        with pytest.raises(SettingsError, match=words):
            open_results(path, "jsonl", source=None, resume=True)


def summary() -> MetricTally:
    found = MetricTally("relevance", (1, 5))
    for number, score in enumerate((5, 5, 2, 1)):
        found.add(scored(number, score, labels={"model": "a" if number < 2 else "b"}))
    found.add(unscored(7))
    found.add(failed(8))
    found.add(failed(9))
    return found


def test_numbers_are_shown_by_tenths_and_labels_by_name() -> None:
    """0.2 of 0 to 1 is in the third tenth, 1 in the last."""
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
    found = MetricTally("relevance", (1, 5))
    for number in range(30):
        found.add(scored(number, number % 3 + 1))
    assert [(bad.score, bad.event_id) for bad in found.worst] == [
        (1, f"e{3 * number}") for number in range(10)
    ]


def test_all_failed() -> None:
    broken = MetricTally("relevance", (1, 5))
    assert not Tally([broken]).all_failed
    broken.add(failed(1))
    assert [Tally([broken]).all_failed, Tally([summary()]).all_failed] == [True, False]


def test_a_paired_difference_by_hand() -> None:
    """D = -1, -2, 0, -1: mean -1, standard error sqrt(2/3/4) = 0.40825; t(3) = 3.18245: half of 1.29923."""
    before = [scored(number, score) for number, score in enumerate((5, 5, 3, 4))]
    now = [scored(number, score) for number, score in enumerate((4, 3, 3, 3))]
    found = compare("relevance", [*before, scored(99, 5)], [*now, unscored(98)])
    assert (found.pairs, found.difference, found.better, found.worse) == (4, -1.0, 0, 3)
    assert found.interval == pytest.approx((-2.29923, 0.29923), abs=2e-3)
    assert not found.is_worse
    assert [(one.before, one.now) for one in found.fallen] == [(5, 3), (5, 4), (4, 3)]


def test_a_fall_beyond_chance_is_one_and_no_pairs_are_none() -> None:
    before = [scored(number, 5) for number in range(20)]
    now = [scored(number, 4 - number % 2) for number in range(20)]
    assert compare("relevance", before, now).is_worse
    assert not compare("relevance", now, before).is_worse
    found = compare("relevance", [], now)
    assert (found.pairs, found.difference, found.interval, found.is_worse) == (0, None, None, False)
    assert "no event was scored in both runs" in found.text()
    assert paired_interval([1.0]) is None


_EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>\u202egnorw\x00'


def _report() -> str:
    upheld = {"claim_span": "The key is in the cupboard.", "supported": True}
    evidence = {"claims": [CLAIM | upheld, CLAIM]}
    results = [
        scored(number, 2 + number % 4, labels={"model": "b" if number % 2 else "a"}).model_copy(
            update={"evidence": evidence}
        )
        for number in range(38)
    ]
    evil = scored(90, 1, labels={"<b>": _EVIL[:60]}, justification=_EVIL)
    evil = evil.model_copy(update={"event_id": _EVIL})
    now: list[Scored | Unscored | Failed] = [*results, evil, failed(91), unscored(92)]
    before = [one.model_copy(update={"score": 5}) for one in results]
    tally = Tally([MetricTally("relevance", (1, 5))], lines=len(now))
    for result in now:
        tally.add(result)
    metrics = build_metrics(Settings.model_validate({"metrics": {"relevance": {}}}))
    labels = [HumanLabel(n, "", one.event_id, "", one.score - n % 2, "") for n, one in enumerate(results)]
    agreed = agreements(labels, now, metrics, Path("people.csv"))
    people = agreed[0].people
    usual = Texts("Where is the key?", "The key is in the cupboard. " * 40, "Cupboard.")
    rows = [
        page_row(
            one,
            Texts(_EVIL, _EVIL, "r") if one.event_id == _EVIL else usual,
            next((old for old in before if old.event_id == one.event_id), None),
            people.get(one.event_id, ()),
        )
        for one in now
    ]
    return page("answers.jsonl", tally, rows, [compare("relevance", before, now)], agreed)


def test_texts_of_the_file_are_never_markup() -> None:
    html = _report()
    assert "<script" not in page("f", Tally([MetricTally("relevance", (1, 5))]))  # without rows
    assert "<img" not in html
    assert html.count("<script") == html.count("</script>") == 2
    assert set(re.findall(r"https?://[^\"]+", html)) == {"http://www.w3.org/2000/svg"}
    assert "\u202e" not in html
    assert r"\u202egnorw\u0000" in html
    (data,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', html)
    assert _EVIL in {row["answer"] for row in json.loads(data)}


@pytest.mark.tools
@pytest.mark.timeout(240)
async def test_the_report_filters_sorts_and_folds_in_a_browser(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    await asyncio.to_thread(report.write_text, _report())
    shown = await driven(report.as_uri(), tmp_path, "report")
    for name, seen in shown.items():
        assert not any(seen["faults"].values()), (name, seen["faults"])
        assert seen["said"] == [], name
        assert seen["asked"] == [report.as_uri()], name
        assert (seen["hacked"], seen["all"]) == (None, "41 of 41 rows")
        assert seen["lowest"][0].startswith("<img")  # score 1, then the scores of 2
        assert (seen["lowest"][1], seen["fell"]) == ("e0", "e0")
        assert seen["found"] == "19 of 41 rows"
        assert seen["failed"] == ["e91"]
        assert "✗ claim: It opens the garage." in seen["evidence"]
        assert seen.get("order") == ("ascending" if name == "light" else None)
