"""Estimates the start of a detected change. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def samples_since_shift(latest_first: Iterable[tuple[float, float]], *, normal_mean: float) -> int:
    """Return how many of the latest samples most likely belong to a fall of the mean.

    For each start, the generalised likelihood ratio of "the mean fell at this sample" to "it did not change",
    for normal errors of equal variance, is an increasing function of

        (sum of w (normal_mean - x))² / sum of w²,

    over the samples since that start; the start with the largest value is returned, of equals the latest.
    Source: Basseville and Nikiforov, Detection of Abrupt Changes (1993), section 2.4.3, with the weights
    added: the variance of the weighted sum is proportional to the sum of w².

    Args:
        latest_first: Pairs of x and its weight w (above 0), the latest first.
        normal_mean: The mean before the fall.

    Returns:
        0 if no start indicates a fall.
    """
    best, since = 0.0, 0
    fall = squares = 0.0
    for number, (value, weight) in enumerate(latest_first, start=1):
        fall += weight * (normal_mean - value)
        squares += weight * weight
        if fall > 0 and fall * fall > best * squares:
            best, since = fall * fall / squares, number
    return since
