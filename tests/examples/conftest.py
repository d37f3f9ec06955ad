"""A package with extensions, installed as another team would install it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.streams.cli.processes import Ended
from tests.toolbox import run

Run = Callable[..., Ended]

# Each program runs in a process that forks from one with the modules: importing them takes seconds.
_FORKING = """
import json, os, sys
import streams.cli.main, streams.cli.file_run, streams.sinks.delivery
for line in sys.stdin:
    program, arguments, folder, env = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(folder)
    os.environ.update(env)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv[1:] = arguments
    exec(program, {"__name__": "__main__"})
    sys.exit()
"""


@pytest.fixture(scope="session")
def with_extensions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Install `extensions` into a folder; yields what runs a program with it in a folder."""
    packages = tmp_path_factory.mktemp("extensions")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    command = (sys.executable, "-m", "pip", "install", *offline, "--target", packages)
    run(*command, ROOT / "tests/examples/extensions")
    path = {"PATH": os.environ["PATH"], "PYTHONPATH": str(packages)}
    server = subprocess.Popen(
        [sys.executable, "-c", _FORKING], env=path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with server:
        assert server.stdin is not None
        assert server.stdout is not None
        asked, answers = server.stdin, server.stdout

        def run_in(folder: Path, program: str, *arguments: str, **env: str) -> Ended:
            asked.write(json.dumps([program, arguments, str(folder), env]) + "\n")
            asked.flush()
            code = int(answers.readline())
            return Ended(code, (folder / "out").read_text(), (folder / "err").read_text())

        yield run_in
        asked.close()
