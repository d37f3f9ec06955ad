from __future__ import annotations

import pytest

from generate.chart_page import current, table
from generate.chart_values import UndescribedError, Value, read_values

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
    """An undescribed key is an error, because the README would lack it."""
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
