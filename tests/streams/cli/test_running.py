"""The event loop of a command, and what a crash leaves behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from streams.cli.running import BadUsageError, EventLoop, run_until_stopped


@pytest.mark.parametrize(("loop", "module"), [("asyncio", "asyncio.unix_events"), ("uvloop", "uvloop")])
def test_the_loop_is_asyncios_unless_uvloop_is_chosen(loop: EventLoop, module: str) -> None:
    async def loop_of(_: asyncio.Event) -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run_until_stopped(loop_of, loop=loop) == module


def test_a_missing_uvloop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)

    async def nothing(_: asyncio.Event) -> None:
        """Never run."""

    with pytest.raises(BadUsageError, match=r"judge.event_loop: uvloop is not installed; pip install"):
        run_until_stopped(nothing, loop="uvloop")


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
