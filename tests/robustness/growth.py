"""Measures how the time of a function grows with the size of a text, as a ratio that is independent of the
machine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from math import sqrt
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
_TRIES: Final = 15


def steepest(
    function: Callable[[str], object], name: str, *, sizes: Sequence[int] = SIZES
) -> tuple[float, str]:
    """The largest ratio between the times of a text and its double, and its size.

    Args:
        function: The function under test.
        name: The text's name in the corpus.
        sizes: In characters, from small to large.
    """
    worst, where = 0.0, "too fast to measure"
    for size in sizes:
        ratio, seconds = _ratio(function, name, size)
        if ratio > worst:
            worst, where = ratio, f"{size} and {2 * size} characters, {seconds:.3f} s"
        if worst > MAX_RATIO or seconds > ENOUGH_SECONDS:
            break
    return worst, where


def _ratio(function: Callable[[str], object], name: str, size: int) -> tuple[float, float]:
    """The ratio, repeated while it is too large: a pause of the machine raises one, quadratic time all."""
    small, large = corpus.text(name, size), corpus.text(name, 2 * size)
    lowest_small = lowest_large = float("inf")
    for _ in range(_TRIES):
        lowest_large = min(lowest_large, _seconds(function, large))
        if lowest_large < LEAST_SECONDS:
            return 0.0, lowest_large
        # Thrice, because one long time of the small text would hide a square.
        lowest_small = min(lowest_small, *(_seconds(function, small) for _ in range(3)))
        ratio = lowest_large / max(lowest_small, 1e-9)
        if ratio <= MAX_RATIO:
            return ratio, lowest_large
    # A limit between the sizes makes one step; over two doublings quadratic time gives 16, a step only one
    # factor.
    quarter = corpus.text(name, size // 2)
    lowest_quarter = min(_seconds(function, quarter) for _ in range(_TRIES))
    return min(ratio, sqrt(lowest_large / max(lowest_quarter, 1e-9))), lowest_large


def _seconds(function: Callable[[str], object], text: str) -> float:
    """CPU seconds of this thread, independent of other processes."""
    gc.collect(0)
    begun = time.thread_time()
    function(text)
    return time.thread_time() - begun
