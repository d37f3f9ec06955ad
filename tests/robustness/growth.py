"""Measures how the time of a function grows with the size of a text, as a ratio on any machine."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from math import cbrt
from typing import Final

from tests.robustness import corpus

MAX_RATIO: Final = 3.0
"""The highest ratio for twice the text: linear is 2, plus noise; quadratic is 4."""
SIZES: Final = (1_500, 8_000, 64_000)
"""Each is compared with its double; only a large text shows a quadratic part below a large linear one."""
ENOUGH_SECONDS: Final = 0.03
"""A pair that takes this long needs no larger one."""
LEAST_SECONDS: Final = 0.004
"""Shorter times are noise."""
_TRIES: Final = 7


def steepest(
    function: Callable[[str], object], name: str, *, sizes: Sequence[int] = SIZES
) -> tuple[float, str]:
    worst, where = 0.0, "too fast to measure"
    for size in sizes:
        ratio, seconds = _ratio(function, name, size)
        if ratio > worst:
            worst, where = ratio, f"{size} and {2 * size} characters, {seconds:.3f} s"
        if worst > MAX_RATIO or seconds > ENOUGH_SECONDS:
            break
    return worst, where


def _ratio(function: Callable[[str], object], name: str, size: int) -> tuple[float, float]:
    """The ratio for one doubling; when it is too large, the mean one of three doublings.

    Quadratic time is 64 times as long over three, linear time 8 times: neither a machine that is half as fast
    for a while nor a limit between two sizes is taken for a square.
    """
    small, large = corpus.text(name, size), corpus.text(name, 2 * size)
    lowest_large = min(_seconds(function, large) for _ in range(2))
    if lowest_large < LEAST_SECONDS:
        return 0.0, lowest_large
    # Thrice, because one long time of the small text would hide a square.
    ratio = lowest_large / max(min(_seconds(function, small) for _ in range(3)), 1e-9)
    if ratio <= MAX_RATIO:
        return ratio, lowest_large
    least, most = corpus.text(name, size // 2), corpus.text(name, 4 * size)
    low = high = float("inf")
    for _ in range(_TRIES):
        # In turn, so that a slow time of the machine meets both.
        low = min(low, _seconds(function, least))
        high = min(high, _seconds(function, most))
    return cbrt(high / max(low, 1e-9)), high


def _seconds(function: Callable[[str], object], text: str) -> float:
    """CPU seconds of this thread, independent of other processes."""
    gc.collect(0)
    begun = time.thread_time()
    function(text)
    return time.thread_time() - begun
