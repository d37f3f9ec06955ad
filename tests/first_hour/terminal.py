"""A newcomer's terminal: a shell in which commands are typed."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DEADLINE_SECONDS: Final = 240.0
_MARK: Final = "=== the command before ended with "


class Terminal:
    """Types commands in a folder and reads their output; background commands write to files."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._folder = folder
        self._beside: list[Path] = []
        self._unread = b""

    def type(self, command: str) -> tuple[int, str]:
        """Type a command and wait for its end; returns exit code and output."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{command}\nprintf '\\n{_MARK}%s\\n' $?\n".encode())
        self._shell.stdin.flush()
        end = re.compile(rf"\n{_MARK}(\d+)\n".encode())
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (found := end.search(self._unread)) is None:
            self._read(deadline, command)
        said, self._unread = self._unread[: found.start()], self._unread[found.end() :]
        return int(found[1]), said.decode()

    def type_beside(self, command: str) -> Path:
        """Run a command in the background; returns the file of its output."""
        log = self._folder / f"terminal-{len(self._beside)}.log"
        log.touch()
        self._beside.append(log)
        # With its own stdin; otherwise it would read the next command. Ctrl-C reaches its whole group.
        self.type(f"set -m\n{{ {command}\n}} > {log} 2>&1 < /dev/null &\nset +m")
        return log

    def interrupt(self) -> int:
        """Press Ctrl-C in the latest background command; returns its exit code."""
        code, _ = self.type("kill -INT -- -$! 2>/dev/null; wait $!")
        return code

    def close(self) -> None:
        if self._shell.poll() is None:
            self.type("for job in $(jobs -p); do kill -- -$job 2>/dev/null; done; wait")
            assert self._shell.stdin is not None
            self._shell.stdin.close()
            self._shell.wait(DEADLINE_SECONDS)
        assert self._shell.stdout is not None
        self._shell.stdout.close()

    def _read(self, deadline: float, command: str) -> None:
        assert self._shell.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._shell.stdout, selectors.EVENT_READ)
            ready = selector.select(max(deadline - time.monotonic(), 0))
        chunk = os.read(self._shell.stdout.fileno(), 65_536) if ready else b""
        assert chunk, f"{command!r} did not end: {self._unread.decode(errors='replace')}"
        self._unread += chunk
