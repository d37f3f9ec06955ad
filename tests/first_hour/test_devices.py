"""A file without an end is refused wherever one is named, before it fills the memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMITED = (
    "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2);"
    "from streams.cli.main import run; run()"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("config", "check", "/dev/zero"), "must be at most 1048576 bytes"),
        (("judge", "/dev/zero", "-m", "coverage"), "line 1 must be at most"),
        (("judge", "/dev/zero", "-m", "coverage", "--format", "json"), "write JSON lines instead"),
        (("judge", "/dev/zero", "-m", "coverage", "--format", "csv"), "first line must be shorter"),
        (("demo", "--events-file", "/dev/zero"), "line 1 must be at most"),
        (("map", "/dev/zero"), "must have at most 268435456 bytes"),
    ],
    ids=lambda value: "-".join(value[:1] + value[4:]) if isinstance(value, tuple) else "",
)
def test_a_device_is_refused(command: tuple[str, ...], says: str) -> None:
    """The command names the limit, within 4 GiB of address space."""
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, *command], capture_output=True, text=True, check=False, timeout=100
    )
    assert says in ended.stderr, ended.stderr
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
