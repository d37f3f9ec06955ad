"""Coverage-guided fuzzing: `python -m tests.robustness.fuzz [TARGET ...] [--seconds N] [--seed N]`. `make
fuzz` installs its dependencies. Each target runs in its own process from the seeds in the repository. New
inputs stay in `.cache/fuzz/found`; inputs that break a target are written to `.cache/fuzz/broken`, and the
command exits with 1. Copy a minimised one to `tests/robustness/seeds/TARGET`: `make test` then runs it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Final

from tests.places import ROOT
from tests.robustness.targets import SEEDS, TARGETS

SLOWEST_SECONDS: Final = 10
"""The time limit of an input, under slow instrumentation."""
MOST_MIB: Final = 1_500
LONGEST_BYTES: Final = 20_000
# The process of one target; libFuzzer reads the rest of its command line.
_CHILD: Final = """
import sys
import atheris
with atheris.instrument_imports(include=["judge", "streams", "schemas"]):
    from tests.robustness.targets import TARGETS
atheris.Setup(sys.argv, TARGETS[{target!r}])
atheris.Fuzz()
"""
_FOLDER: Final = ROOT / ".cache" / "fuzz"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], help="all by default")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="0 for another each time")
    asked = parser.parse_args()
    broken = [name for name in asked.targets or TARGETS if _run(name, asked.seconds, asked.seed) != 0]
    sys.stdout.write(f"broken: {', '.join(broken)}\n" if broken else "nothing broke\n")
    return 1 if broken else 0


def _run(target: str, seconds: int, seed: int) -> int:
    found, artifacts = _FOLDER / "found" / target, _FOLDER / "broken" / target
    for folder in (found, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    limits = {"timeout": SLOWEST_SECONDS, "rss_limit_mb": MOST_MIB, "max_len": LONGEST_BYTES}
    shown = {"artifact_prefix": f"{artifacts}/", "print_final_stats": 1, "verbosity": 0}
    given = {"max_total_time": seconds, "seed": seed, **limits, **shown}
    options = [f"-{name}={value}" for name, value in given.items()]
    sys.stdout.write(f"--- {target}, {seconds} s\n")
    sys.stdout.flush()
    command = [sys.executable, "-c", _CHILD.format(target=target), *options, str(found), str(SEEDS / target)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
