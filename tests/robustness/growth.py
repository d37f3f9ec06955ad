"""Measures how the time of a function grows with the size of a text.

A ratio, so that the machine does not matter.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Final

from tests.robustness import corpus

MAX_RATIO: Final = 3.0
"""Twice the text may take this many times as long: linear is 2, the rest is noise; a square is 4."""
SIZES: Final = (1_500, 8_000, 64_000)
"""Each is compared with its double: a square hides below a large linear part, and a large text shows it."""
ENOUGH_SECONDS: Final = 0.03
"""After a pair that takes so long, a larger one tells no more."""
LEAST_SECONDS: Final = 0.004
"""Less than this is not measured but noise."""
_TRIES: Final = 6


def steepest(
    function: Callable[[str], object], name: str, *, sizes: Sequence[int] = SIZES
) -> tuple[float, str]:
    """The largest ratio between the time for a text and for its double, and at which size.

    Args:
        function: What reads the text.
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
    """The ratio, measured again while it is too large: a pause of the machine makes
    one, a square makes all.
    """
    small, large = corpus.text(name, size), corpus.text(name, 2 * size)
    lowest_small = lowest_large = float("inf")
    for _ in range(_TRIES):
        lowest_large = min(lowest_large, _seconds(function, large))
        if lowest_large < LEAST_SECONDS:
            return 0.0, lowest_large
        lowest_small = min(lowest_small, _seconds(function, small))
        ratio = lowest_large / max(lowest_small, 1e-9)
        if ratio <= MAX_RATIO:
            return ratio, lowest_large
    # A bound that the larger text passes makes one step and no slope: over two doublings a square is 16, and
    # a step once.
    quarter = corpus.text(name, size // 2)
    lowest_quarter = min(_seconds(function, quarter) for _ in range(_TRIES))
    return min(ratio, sqrt(lowest_large / max(lowest_quarter, 1e-9))), lowest_large


def _seconds(function: Callable[[str], object], text: str) -> float:
    """CPU seconds of this thread: what others do on the machine does not count."""
    gc.collect(0)
    begun = time.thread_time()
    function(text)
    return time.thread_time() - begun
