"""Write or check the committed dashboards and their page of documentation: `python -m dashboards --write`, `--check`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dashboards.grafana import Dashboard, to_json
from dashboards.judge import judge
from dashboards.page import page
from dashboards.pipeline import pipeline
from dashboards.quality import quality

_ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = _ROOT / "helm" / "files" / "dashboards"
PAGE: Final = _ROOT / "docs" / "dashboards.md"


def all_dashboards() -> Mapping[str, Dashboard]:
    """The dashboards by the name of their file."""
    return {"quality": quality(), "pipeline": pipeline(), "judge": judge()}


def stale(folder: Path = FOLDER) -> list[str]:
    """Name the files that differ from what the code makes, or that it does not make."""
    made = {f"{name}.json": to_json(dashboard) for name, dashboard in all_dashboards().items()}
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))


def main(arguments: Sequence[str]) -> int:
    """Write or check them; 0 when they are current."""
    parser = argparse.ArgumentParser(prog="python -m dashboards", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the files anew")
    action.add_argument("--check", action="store_true", help="fail where a file is not current")
    if parser.parse_args(arguments).write:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, dashboard in all_dashboards().items():
            (FOLDER / f"{name}.json").write_text(to_json(dashboard), encoding="utf-8")
        PAGE.write_text(page(all_dashboards().values()), encoding="utf-8")
    names = stale()
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page(all_dashboards().values()):
        names.append(PAGE.name)
    if names:
        sys.stderr.write(f"not current: {', '.join(names)}; run python -m dashboards --write\n")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
