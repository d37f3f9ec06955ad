from __future__ import annotations

import json
from math import sqrt
from pathlib import Path

import pytest

from generate import __main__ as generate
from generate import command_page, message_page, settings_page
from generate.chart_page import current, table
from generate.chart_values import UndescribedError, Value, read_values
from generate.message_schemas import MESSAGES
from generate.metrics_page import EXAMPLES, LABEL_MEANINGS, reference
from generate.tables import kind_of
from streams.kafka.topics.table import TOPICS
from streams.settings.load import settings_schema
from streams.settings.tree import Settings
from streams.telemetry.catalogue import CATALOGUE, LABELS, SUMS
from tests.toolbox import run, tool


def test_every_setting_is_described() -> None:
    schema = settings_schema()
    rows = [
        row
        for name, field in schema["properties"].items()
        for row in settings_page.rows_of(schema, name, field)
    ]
    assert len(rows) > 100
    assert [row.path for row in rows if not row.description] == []
    assert [row.path for row in rows if row.kind == "any"] == []


@pytest.mark.parametrize("section", list(Settings.model_fields))
def test_every_section_has_an_example_that_is_read(section: str) -> None:
    assert getattr(settings_page.example(section), section) != getattr(Settings(), section)


def test_settings_commands_messages_and_topics_are_there() -> None:
    settings, commands, messages = settings_page.page(), command_page.page(), message_page.page()
    for path, kind, default in (
        ("sampling.default_rate", "number, from 0 to 1", "1.0"),
        ("judge.endpoints[].name", "text", "required"),
        ("sampling.rules[].when", "mapping", "required"),
    ):
        assert f"| `{path}` | {kind} | `{default}` |" in settings
    for name in ("demo", "worker", "judge", "config check", "offline-judge"):
        assert f"\n## {name}\n" in commands
    assert "`--metric`" in commands
    assert all(f"\n## {name}\n" in messages for name in MESSAGES)
    assert messages.count("\n| `qa.") + messages.count("\n| `judge.") >= len(TOPICS)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"type": "string"}, "text"),
        ({"type": "number", "minimum": 0, "exclusiveMaximum": 2}, "number, from 0 below 2"),
        ({"type": "array", "items": {"type": "integer"}}, "list of whole number"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, "text or null"),
        ({"enum": ["a", "b"]}, "`a`, `b`"),
        ({"const": 1}, "`1`"),
        ({"$ref": "#/$defs/X"}, "object X"),
        ({"type": "string", "format": "date-time"}, "date and time"),
    ],
)
def test_json_schema_in_words(node: dict[str, object], words: str) -> None:
    assert kind_of({"$defs": {"X": {"properties": {}}}}, node) == words


def test_every_metric_and_label_is_explained() -> None:
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
    labels = '{metric="relevance"}'
    series = [
        {"series": f"judgestream_score_{name}_total{labels}", "values": f"0+{step}x60"}
        for name, step in steps.items()
    ]
    asked = [
        {"expr": EXAMPLES[title][1], "eval_time": "60m", "exp_samples": [{"labels": labels, "value": value}]}
        for title, value in expected.items()
    ]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    file = tmp_path / "examples.yaml"
    file.write_text(json.dumps({"fuzzy_compare": True, "tests": [test]}), encoding="utf-8")
    assert "SUCCESS" in run(tool("promtool"), "test", "rules", file)


_TEXT = """\
# For readers of the file.

# == First

# -- How it runs,
# in two lines.
mode: single
image:
  # -- Its tag.
  tag: ""
# -- Anything.
labels:
  team: quality

# == Second

# -- As it stands.
config:
  # -- A port.
  port: 8080
"""


def test_every_described_key_is_a_value_of_its_section() -> None:
    """A mapping without a description is walked; one with described parts has no default."""
    assert read_values(_TEXT) == [
        Value("mode", '"single"', "How it runs, in two lines.", "First"),
        Value("image.tag", '""', "Its tag.", "First"),
        Value("labels", '{"team": "quality"}', "Anything.", "First"),
        Value("config", None, "As it stands.", "Second"),
        Value("config.port", "8080", "A port.", "Second"),
    ]


def test_a_key_without_a_description_is_an_error() -> None:
    with pytest.raises(UndescribedError, match=r"image\.digest$"):
        read_values(_TEXT.replace('  tag: ""', '  tag: ""\n  digest: ""'))


def test_an_empty_line_separates_a_comment_from_a_key() -> None:
    with pytest.raises(UndescribedError, match=r"other$"):
        read_values("# -- Not this.\n\nother: 1\n")


def test_cells_of_the_table_cannot_break_it() -> None:
    (line,) = [row for row in table([Value("a", '"x|y"', "x | y", "S")]).splitlines() if "`a`" in row]
    assert line == '| `a` | `"x\\|y"` | x \\| y |'


def test_a_readme_without_marks_is_an_error() -> None:
    with pytest.raises(ValueError, match="end of values"):
        current("# judgestream\n", _TEXT)


def test_the_committed_files_are_current() -> None:
    assert generate.main(["--check"]) == 0


def test_different_missing_and_surplus_files_are_stale(tmp_path: Path) -> None:
    made = {tmp_path / "same": "1", tmp_path / "other": "2", tmp_path / "gone": "3"}
    (tmp_path / "same").write_text("1", encoding="utf-8")
    (tmp_path / "other").write_text("old", encoding="utf-8")
    (tmp_path / "left").write_text("4", encoding="utf-8")
    assert generate.stale(made, [tmp_path]) == [tmp_path / name for name in ("gone", "left", "other")]


def test_check_names_the_remedy_and_write_applies_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "FOLDERS", ())
    monkeypatch.setattr(generate, "GENERATORS", (lambda: {tmp_path / "deep" / "page.md": "text"},))
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().err == "deep/page.md is outdated; run `make generate` and commit it\n"
    assert generate.main(["--write"]) == 0
    assert (tmp_path / "deep" / "page.md").read_text(encoding="utf-8") == "text"
