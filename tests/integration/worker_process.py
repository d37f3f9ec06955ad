"""A worker as a process: `python -m tests.integration.worker_process SETTINGS`. It prints a line when it
reads.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from streams.settings import load_settings
from streams.telemetry.logs import set_up_logs
from streams.worker.run import run_worker


async def main(path: str) -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = load_settings(path)
    set_up_logs(settings.telemetry)  # to standard error: the first line of standard output says that it reads
    await run_worker(settings, stop=stop, on_ready=lambda running: print(running.url, flush=True))  # noqa: T201 - how the test learns of it


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
