"""Write or check the tables of `docs/scaling.md`, or size a workload.

python -m benchmarks.sizing --write | --check | --size ...
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

from benchmarks.sizing.model import Workload, size
from benchmarks.sizing.tables import tables

PAGE: Final = Path(__file__).parents[2] / "docs" / "scaling.md"


def filled(page: str, made: Mapping[str, str]) -> str:
    """Return a text with the tables between `<!-- sizing NAME: begin -->` and `<!-- sizing NAME: end -->`.

    Raises:
        ValueError: A table has no marks, or marks have no table.
    """
    places = re.findall(r"<!-- sizing (\w+): begin -->", page)
    if sorted(places) != sorted(made):
        raise ValueError(f"places of tables must be {sorted(made)}, each once, got {sorted(places)}")
    for name, table in made.items():
        block = re.compile(rf"(<!-- sizing {name}: begin -->\n).*?(<!-- sizing {name}: end -->)", re.DOTALL)
        page = block.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", page)  # type: ignore[misc] # mypy cannot type a default
    return page


def main(arguments: Sequence[str]) -> int:
    """Write, check or size; return 0 on success."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the tables")
    action.add_argument("--check", action="store_true", help="fail if a table is outdated")
    action.add_argument("--size", nargs="+", metavar="NAME=VALUE", help=", ".join(_names()))
    options = parser.parse_args(arguments)
    if options.size:
        given = dict(one.split("=", 1) for one in options.size)
        unknown = given.keys() - set(_names())
        if unknown or not {"events_per_second", "sampling_rate"} <= given.keys():
            parser.error(
                f"events_per_second=... and sampling_rate=... are needed; further ones: {', '.join(_names())}"
            )
        print(json.dumps(asdict(size(Workload(**{name: float(text) for name, text in given.items()})))))  # type: ignore[arg-type] # names are checked above
        return 0
    page = PAGE.read_text(encoding="utf-8")
    current = filled(page, tables())
    if options.write:
        PAGE.write_text(current, encoding="utf-8")
    elif current != page:
        print(f"not current: {PAGE.name}; run python -m benchmarks.sizing --write", file=sys.stderr)
        return 1
    return 0


def _names() -> list[str]:
    return [field.name for field in fields(Workload)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
