"""Write or check the generated files: `python -m generate --write`, `--check`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from generate import (
    chart_page,
    chart_schema,
    command_page,
    corrections_page,
    message_page,
    message_schemas,
    metrics_page,
    permissions_page,
    settings_page,
    situations_page,
)
from generate.dashboards import files as dashboards
from generate.places import ROOT

GENERATORS: Final[Sequence[Callable[[], Mapping[Path, str]]]] = (
    message_schemas.files,
    message_page.files,
    corrections_page.files,
    metrics_page.files,
    permissions_page.files,
    settings_page.files,
    command_page.files,
    dashboards.files,
    chart_page.files,
    situations_page.files,
    chart_schema.files,
)
"""Each returns its files by path."""
FOLDERS: Final = (message_schemas.FOLDER, dashboards.FOLDER)
"""Folders that contain only generated files."""


def wanted() -> dict[Path, str]:
    """Return all generated files by path."""
    return {path: text for generator in GENERATORS for path, text in generator().items()}


def stale(made: Mapping[Path, str], folders: Iterable[Path]) -> list[Path]:
    """Return the files that are outdated, missing or no longer generated."""
    outdated = {
        path for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
    return sorted(outdated | {path for folder in folders for path in folder.glob("*") if path not in made})


def main(arguments: Sequence[str]) -> int:
    """Write or check the files; return 0 if they are current."""
    parser = argparse.ArgumentParser(prog="python -m generate", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the files")
    action.add_argument("--check", action="store_true", help="fail if a file is outdated")
    action.add_argument("--release", action="store_true", help="mark the current message schemas as released")
    parsed = parser.parse_args(arguments)
    if parsed.release:
        message_schemas.release()
        return 0
    made = wanted()
    if parsed.write:
        for path, text in made.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    outdated = stale(made, FOLDERS)
    for path in outdated:
        sys.stderr.write(f"{path.relative_to(ROOT)} is outdated; run `make generate` and commit it\n")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
