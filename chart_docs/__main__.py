"""Write or check the table of values in the chart's README: `python -m chart_docs --write`, `--check`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from chart_docs.values import Value, read_values

_CHART: Final = Path(__file__).parent.parent / "helm"
VALUES: Final = _CHART / "values.yaml"
README: Final = _CHART / "README.md"
_BEGIN: Final = "<!-- values: from values.yaml by python -m chart_docs --write -->"
_END: Final = "<!-- end of values -->"


def table(values: Iterable[Value]) -> str:
    """Write the values as Markdown, a table a section."""
    parts = []
    for section, members in groupby(values, key=lambda value: value.section):
        rows = "\n".join(
            f"| `{one.path}` | {'' if one.default is None else f'`{_cell(one.default)}`'} | {_cell(one.description)} |"
            for one in members
        )
        parts.append(f"### {section}\n\n| value | default | what it is |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def current(readme: str, values: str) -> str:
    """Give a README with the table of these values between its marks.

    Raises:
        ValueError: The marks are missing.
        UndescribedError: A value has no description.
    """
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{README.name}: the lines {_BEGIN} and {_END} must be there; add them")
    return f"{before}{begin}\n\n{table(read_values(values))}\n{end}{after}"


def main(arguments: Sequence[str]) -> int:
    """Write or check it; 0 when it is current."""
    parser = argparse.ArgumentParser(prog="python -m chart_docs", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the table anew")
    action.add_argument("--check", action="store_true", help="fail where it is not current")
    write = parser.parse_args(arguments).write
    readme = README.read_text(encoding="utf-8")
    wanted = current(readme, VALUES.read_text(encoding="utf-8"))
    if write:
        README.write_text(wanted, encoding="utf-8")
    elif readme != wanted:
        sys.stderr.write("helm/README.md is not current; run python -m chart_docs --write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
