"""The relative weight of each sample within its sampling policy. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

MOST_POLICIES = 32
"""Maximum policies remembered; a budget that lowers rates creates one per step."""

MOST_STRATA = 100
"""Maximum strata of a policy with a scale of their own; further ones share one."""

AWAITED_SHARE = 0.2
"""Share of the traffic under the policy before from which a stratum is awaited under a new one."""

LONGEST_WAIT = 500
"""Samples after which a new policy is used without the strata that it awaits."""

FORGET_AFTER = 200
"""Samples of a stratum after which its largest weight is forgotten, if none came near it."""

FORGET_GAPS = 20
"""As many mean gaps between samples near the largest weight must pass, too."""

_OTHERS = "*"
_ANY = ""
"""The stratum of a weight that an older version saved; it becomes the first one that is seen."""


@dataclass(slots=True)
class _Scale:
    """The largest weight of one stratum of a policy.

    Attributes:
        largest: That weight; 0 before the first sample.
        near: Samples of at least half that weight.
        between: Samples from the first to the latest of them.
        since: Samples since the latest of them.
        following: The largest weight since.
        traffic: Sum of all weights.
    """

    largest: float = 0.0
    near: int = 0
    between: int = 0
    since: int = 0
    following: float = 0.0
    traffic: float = 0.0

    def add(self, weight: float) -> None:
        self.traffic += weight
        self.since += 1
        if weight > 2 * self.largest:
            self.near = self.between = 0
        if weight >= self.largest / 2:
            self.largest = max(self.largest, weight)
            self.between += self.since if self.near else 0
            self.near, self.since, self.following = self.near + 1, 0, 0.0
            return
        self.following = max(self.following, weight)
        gap = self.between / (self.near - 1) if self.near > 1 else 0.0
        if self.since >= max(FORGET_AFTER, FORGET_GAPS * gap):
            self.largest, self.near, self.between, self.since = self.following, 1, 0, 0
            self.following = 0.0


@dataclass(slots=True)
class _Policy:
    """The scales of a policy's strata; the strata that it awaits; its samples so far."""

    strata: dict[str, _Scale] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)
    count: int = 0

    def share(self, stratum: str, weight: float) -> float:
        largest = max((scale.largest for scale in self.strata.values()), default=0.0)
        waits = bool(self.awaited) and self.count < LONGEST_WAIT
        self.count += 1
        self.awaited.discard(stratum)
        if stratum not in self.strata and len(self.strata) >= MOST_STRATA:
            stratum = _OTHERS
        scale = self.strata.get(stratum)
        if scale is None:
            scale = self.strata[stratum] = self.strata.pop(_ANY, _Scale())
        scale.add(weight)
        return 0.0 if waits or not largest else min(weight / largest, 1.0)


class RelativeWeights:
    """Turns weights into shares of the current policy's largest weight.

    A sequential test needs weights of at most 1 on a scale that is fixed before the sample is seen. Any scale
    that depends on the past is valid, as long as no weight exceeds it: a larger one counts as 1, less than
    its weight, so that the answers judged more often speak for all. Therefore:

    - Each policy has a scale of its own, the largest weight of its strata. A policy lowered by a factor
      ("name*1/4") starts with those of the policy itself divided by that factor.
    - Any other new policy has no share before each stratum with a fifth of the traffic was seen under it, or
      500 samples have passed: until then the weight of a rarely judged stratum is not known.
    - A stratum forgets its largest weight after 200 samples and 20 usual gaps without one near it. So one
      answer with a wrong, tiny stated probability silences the test only so long.
    """

    __slots__ = ("_policies",)

    def __init__(self) -> None:
        self._policies: OrderedDict[str, _Policy] = OrderedDict()

    def share(self, policy: str, stratum: str, weight: float) -> float:
        """Add the weight of one sample; return its share of the largest before it.

        Args:
            policy: The sampling policy's name.
            stratum: The sampling rule's name.
            weight: The inverse of the inclusion probability; at least 1.

        Returns:
            0 while the scale is not known, at most 1.

        Raises:
            ValueError: The weight is below 1.
        """
        if not weight >= 1:
            raise ValueError(f"weight must be at least 1, got {weight}")
        known = self._policies.get(policy)
        if known is None:
            known = self._policies[policy] = self._begin(policy)
            if len(self._policies) > MOST_POLICIES:
                self._policies.popitem(last=False)
        self._policies.move_to_end(policy)
        return known.share(stratum, weight)

    def _begin(self, policy: str) -> _Policy:
        base, _, lowered = policy.rpartition("*")
        known = self._policies.get(base)
        if known is None:
            return _Policy(awaited=self._usual_strata())
        numerator, _, denominator = lowered.partition("/")
        try:
            factor = float(denominator or 1) / float(numerator)
        except (ValueError, ZeroDivisionError):
            factor = 1.0
        scales = {
            name: _Scale(one.largest * factor, 1, traffic=one.traffic) for name, one in known.strata.items()
        }
        return _Policy(scales, set(known.awaited))

    def _usual_strata(self) -> set[str]:
        if not self._policies:
            return set()
        latest = next(reversed(self._policies.values()))
        whole = sum(one.traffic for one in latest.strata.values())
        return latest.awaited | {
            name
            for name, one in latest.strata.items()
            if name != _ANY and one.traffic >= AWAITED_SHARE * whole
        }

    def dump(self) -> list[list[Any]]:
        """Return the whole state as JSON values."""
        return [
            [name, one.count, sorted(one.awaited), {key: astuple(scale) for key, scale in one.strata.items()}]
            for name, one in self._policies.items()
        ]

    def load(self, state: Sequence[Sequence[Any]]) -> None:
        """Restore the state that `dump` returned; an older version's has pairs of policy and weight."""
        self._policies = OrderedDict()
        for name, *rest in state:
            count, awaited, strata = rest if len(rest) > 1 else (0, (), {_ANY: (rest[0], 1)})
            scales = {key: _Scale(*scale) for key, scale in strata.items()}
            self._policies[name] = _Policy(scales, set(awaited), count)
