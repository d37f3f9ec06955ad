"""The relative weight of each sample within its sampling policy. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

MOST_POLICIES = 32
"""Maximum policies remembered; a budget that lowers rates creates one per step."""


class RelativeWeights:
    """Turns weights into shares of the current policy's largest weight.

    A sequential test needs weights of at most 1 on a scale that is fixed before the sample is seen. With the
    largest weight ever as the scale, one answer sampled at a tiny rate would make all later ones negligible.
    Any scale that depends on the past is valid, so each policy has its own. A policy lowered by a factor
    ("name*1/4") starts with the largest weight of the policy itself divided by that factor.

    A sample with a new largest weight counts as 1, less than its weight; a policy of a few strata has few.

    Args:
        largest: Earlier pairs of policy and largest weight from `largest`.
    """

    __slots__ = ("_largest",)

    def __init__(self, largest: Iterable[tuple[str, float]] = ()) -> None:
        self._largest: OrderedDict[str, float] = OrderedDict(largest)

    @property
    def largest(self) -> tuple[tuple[str, float], ...]:
        """The largest weight of each remembered policy."""
        return tuple(self._largest.items())

    def share(self, policy: str, weight: float) -> float:
        """Add the weight of one sample; return its share of its policy's largest.

        Args:
            policy: The sampling policy's name.
            weight: The inverse of the inclusion probability; at least 1.

        Returns:
            Above 0 and at most 1.

        Raises:
            ValueError: The weight is below 1.
        """
        if not weight >= 1:
            raise ValueError(f"weight must be at least 1, got {weight}")
        known = self._largest.get(policy)
        if known is None:
            known = self._expected(policy)
            if len(self._largest) >= MOST_POLICIES:
                self._largest.popitem(last=False)
        else:
            self._largest.move_to_end(policy)
        largest = self._largest[policy] = max(known, weight)
        return weight / largest

    def _expected(self, policy: str) -> float:
        base, _, factor = policy.rpartition("*")
        known = self._largest.get(base)
        if known is None:
            return 1.0
        numerator, _, denominator = factor.partition("/")
        try:
            return known * float(denominator or 1) / float(numerator)
        except (ValueError, ZeroDivisionError):
            return known
