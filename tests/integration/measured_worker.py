"""A worker that records pauses of its event loop: `python -m tests.integration.measured_worker SETTINGS
PAUSES`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

from streams.settings.load import load_settings
from streams.telemetry.logs import set_up_logs
from streams.worker.run import Running, run_worker

STEP_SECONDS = 0.01
NOTED_SECONDS = 0.02


async def note_pauses(path: Path) -> None:
    """Append a line "moment seconds" for each pause of the loop in which this process worked; Unix time."""
    with path.open("a", encoding="utf-8") as file:
        while True:
            begun, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(STEP_SECONDS)
            # Time that other processes take is not counted: only this process's own work is.
            paused = min(time.perf_counter() - begun - STEP_SECONDS, time.process_time() - used)
            if paused > NOTED_SECONDS:
                file.write(f"{time.time():.3f} {paused:.4f}\n")
                file.flush()


def _tell(running: Running) -> None:
    print(running.url, flush=True)  # noqa: T201 - how the test learns of it


async def main(file: str, pauses: str) -> None:
    """Run until SIGTERM."""
    settings = load_settings(file)
    set_up_logs(settings.telemetry)  # to standard error: the first line of standard output says that it reads
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    noting = asyncio.create_task(note_pauses(Path(pauses)))
    await run_worker(settings, stop=stop, on_ready=_tell)
    noting.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
