"""The command line with the constants that the arena shortens: `python -m tests.chaos.program worker ...`."""

from __future__ import annotations

import sys

from streams.cli.main import run
from tests.integration.tuning import tune_process

if __name__ == "__main__":
    tune_process()
    sys.exit(run())
