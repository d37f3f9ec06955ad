"""How much each sample counts beside the others of its sampling policy. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

MOST_POLICIES = 32
"""Policies remembered; a budget that lowers rates step by step makes one of each step."""


class RelativeWeights:
    """Turns weights into shares of the largest weight of the policy in force.

    A sequential test needs weights of at most 1 on a scale that is fixed before the sample is seen. The
    largest weight ever would do, but then one answer sampled at a tiny rate makes all later ones count next
    to nothing. Any scale that follows from the past is as valid, so each policy has its own: a policy that is
    gone deafens nobody. A policy lowered by a factor ("name*1/4") begins with the largest weight of the
    policy itself over that factor.

    The sample that sets a record counts as 1, which is less than it stands for; a policy of a few strata has
    only a few of them.

    Args:
        largest: Pairs of policy and largest weight, as `largest` gave them.
    """

    __slots__ = ("_largest",)

    def __init__(self, largest: Iterable[tuple[str, float]] = ()) -> None:
        self._largest: OrderedDict[str, float] = OrderedDict(largest)

    @property
    def largest(self) -> tuple[tuple[str, float], ...]:
        """The largest weight of each remembered policy, to continue from later."""
        return tuple(self._largest.items())

    def share(self, policy: str, weight: float) -> float:
        """Take the weight of one sample, and give its share of the largest of its policy.

        Args:
            policy: Names the sampling policy that decided.
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
