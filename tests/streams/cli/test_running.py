"""The event loop of a command, and what a crash leaves behind."""

from __future__ import annotations

import signal
import subprocess
import sys


def test_an_abort_leaves_a_stack() -> None:
    """A SIGABRT, as of a C extension, ends the process with the stack of each thread."""
    code = (
        "import os\nfrom streams.cli.running import run_until_stopped\n"
        "async def crash(stop): os.abort()\nrun_until_stopped(crash)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in ended.stderr
    assert "in crash" in ended.stderr
