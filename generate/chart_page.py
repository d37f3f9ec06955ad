"""Generate the table of values in the chart's README from the comments in values.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from generate.chart_values import Value, read_values
from generate.places import ROOT

_CHART: Final = ROOT / "helm"
VALUES: Final = _CHART / "values.yaml"
README: Final = _CHART / "README.md"
_BEGIN: Final = "<!-- values: from values.yaml by python -m generate --write -->"
_END: Final = "<!-- end of values -->"


def table(values: Iterable[Value]) -> str:
    """Return the values as Markdown, one table per section."""
    parts = []
    for section, members in groupby(values, key=lambda value: value.section):
        rows = "\n".join(
            (
                f"| `{one.path}` | {'' if one.default is None else f'`{_cell(one.default)}`'} | "
                f"{_cell(one.description)} |"
            )
            for one in members
        )
        parts.append(f"### {section}\n\n| value | default | description |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def current(readme: str, values: str) -> str:
    """Return a README with the table of values between its marks.

    Raises:
        ValueError: The marks are missing.
        UndescribedError: A value has no description.
    """
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{README.name}: the lines {_BEGIN} and {_END} must be there; add them")
    return f"{before}{begin}\n\n{table(read_values(values))}\n{end}{after}"


def files() -> Mapping[Path, str]:
    """Return the README by its path.

    Raises:
        ValueError: The marks are missing.
        UndescribedError: A value has no description.
    """
    return {README: current(README.read_text(encoding="utf-8"), VALUES.read_text(encoding="utf-8"))}
