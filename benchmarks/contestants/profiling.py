"""Profile a contestant, if JUDGESTREAM_BENCH_PROFILE names a file."""

from __future__ import annotations

import contextlib
import cProfile
import os
import time
from collections.abc import Iterator


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    """Profile the event loop's thread during a `with` block, if requested."""
    path = os.environ.get("JUDGESTREAM_BENCH_PROFILE")
    if not path:
        yield
        return
    # CPU time of this thread, without waits.
    profile = cProfile.Profile(time.thread_time)
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(path)
