"""A profile of a contestant, where JUDGESTREAM_BENCH_PROFILE names the file for it."""

from __future__ import annotations

import contextlib
import cProfile
import os
import time
from collections.abc import Iterator


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    """Profile the event loop's thread for the length of a `with` block, if that was asked for."""
    path = os.environ.get("JUDGESTREAM_BENCH_PROFILE")
    if not path:
        yield
        return
    # CPU time of this thread: what waits for another thread, or for another process of the machine, costs
    # nothing.
    profile = cProfile.Profile(time.thread_time)
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(path)
