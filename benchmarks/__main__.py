"""Run the benchmarks, one JSON object a line: `python -m benchmarks [NAME ...]`."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence

BENCHMARKS = (
    "agreement",
    "anchors",
    "causes",
    "dependence",
    "honesty",
    "intake",
    "judging",
    "lying_judge",
    "memory",
    "monitor",
    "outage",
    "people",
    "quotations",
    "rate_limit",
    "rates",
    "scaling",
    "scrape",
    "startup",
    "store",
    "tokens",
    "traces",
    "two_phase",
    "verification",
    "words",
)
"""Modules of this package with a function `run() -> Iterator[dict[str, object]]`, in run order."""


def main(names: Sequence[str]) -> int:
    """Run the named benchmarks, or all.

    Returns:
        0; 1 if a benchmark failed; 2 for an unknown name.
    """
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(
            f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr
        )
        return 2
    failed = 0
    for name in names or BENCHMARKS:
        module = importlib.import_module(f"benchmarks.{name}")
        try:
            for result in module.run():
                print(json.dumps(result), flush=True)
        except Exception as error:  # noqa: BLE001 - one that breaks off must not keep the others from running
            print(f"{name} broke off: {type(error).__name__}: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
