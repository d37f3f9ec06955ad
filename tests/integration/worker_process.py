"""A worker as a process: `python -m tests.integration.worker_process SETTINGS`. It prints a line when it
reads.
"""

from __future__ import annotations

import sys

from streams.cli.running import run_until_stopped
from streams.settings.load import load_settings
from streams.telemetry.logs import set_up_logs
from streams.worker.run import run_worker
from tests.integration.tuning import tune_process

if __name__ == "__main__":
    tune_process()
    settings = load_settings(sys.argv[1])
    set_up_logs(settings.telemetry)  # to standard error: the first line of standard output says that it reads
    run_until_stopped(
        lambda stop: run_worker(settings, stop=stop, on_ready=lambda running: print(running.url, flush=True))  # noqa: T201 - how the test learns of it
    )
