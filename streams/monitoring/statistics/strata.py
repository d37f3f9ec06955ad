"""Sampling strata of different quality: the mean of the population, and the weights of a test. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, log, sqrt
from statistics import NormalDist

from streams.monitoring.statistics.estimators import WeightedSums

MOST_STRATA = 100
SHARE_COUNT = 3.0
"""Judged answers that the known traffic of a stratum counts as, beside those of the window."""
_KEPT_A_SECOND = log(2) / 86_400
"""Half-life of the known traffic: a day."""


@dataclass(slots=True)
class Stratum:
    """The usual traffic of a stratum: sums of w, wx and w², each halved every day, and its latest answer."""

    weight: float
    weighted: float
    weight_square: float
    latest: float


@dataclass(slots=True)
class Traffic:
    """The usual traffic of each stratum, as judged answers tell it: their weights add up to all answers."""

    since: float = 0.0
    at: float = 0.0
    strata: dict[str, Stratum] = field(default_factory=dict)

    def add(self, stratum: str, sums: WeightedSums, seconds: float) -> None:
        """Add what an answer adds to the sums; a time before the latest counts as the latest."""
        self.since = self.since or seconds
        kept = exp(-_KEPT_A_SECOND * max(seconds - self.at, 0.0)) if self.at else 1.0
        self.at = max(self.at, seconds)
        if stratum not in self.strata:
            if len(self.strata) >= MOST_STRATA:
                return
            self.strata[stratum] = Stratum(0.0, 0.0, 0.0, seconds)
        for one in self.strata.values():
            one.weight *= kept
            one.weighted *= kept
            one.weight_square *= kept
        one = self.strata[stratum]
        one.weight += sums.weight
        one.weighted += sums.weighted
        one.weight_square += sums.weight_square
        one.latest = max(one.latest, seconds)

    def expected(self, seconds: float) -> Expected:
        span = (1 - exp(_KEPT_A_SECOND * (self.since - self.at))) / _KEPT_A_SECOND
        return expected_of(self.strata, seconds / max(span, seconds, 1.0))


Expected = Mapping[str, tuple[float, float, float]]
"""By stratum the expected answers of a stretch of time, their mean and typical weight."""


def expected_of(strata: Mapping[str, Stratum | WeightedSums], part: float) -> Expected:
    """Return what to expect of a stretch of time that is this part of the time of the sums."""
    return {
        name: (one.weight * part, one.weighted / one.weight, one.weight_square / one.weight)
        for name, one in strata.items()
        if one.weight > 0
    }


def estimate_strata(
    window: Mapping[str, WeightedSums], expected: Expected, *, lowest: float, highest: float
) -> tuple[float, float, float] | None:
    """Return the mean of the population with the ends of its 95% interval; None without scores.

    With h a stratum, n_h its effective judged answers, w_h their typical weight and E_h its expected answers:

        N_h = (n_h + 3) / (1 / w_h + 3 / E_h),  W_h = N_h / sum of N,  mean = sum of W_h m_h
        mean - low = sqrt(sum of (W_h (m_h - low_h))² + z² sum of (W_h (m_h - mean))² / (n_h + 3))

    and the same for the upper end. m_h, low_h and high_h are the mean and Wilson's interval of the stratum,
    which is the whole scale below an effective count of 3. So N_h is the window's own count where it has
    answers, and the usual one where it has few. Source of combining widths: Newcombe, "Interval estimation
    for the difference between independent proportions" (Statistics in Medicine, 1998), method 10; of N_h: the
    posterior mean of a Poisson rate, whose relative variance is 1 / (n_h + 3).
    """
    if not any(sums.count for sums in window.values()):
        return None
    parts = []
    for name in {**expected, **window}:
        sums = window.get(name, WeightedSums())
        n = sums.effective_count
        usual, mean, typical = expected.get(name, (0.0, 0.0, 1.0))
        if n > 0:
            mean, typical = sums.mean or 0.0, sums.weight_square / sums.weight
        ends = sums.interval(lowest=lowest, highest=highest) or (lowest, highest)
        size = (n + SHARE_COUNT) / (1 / typical + SHARE_COUNT / usual) if usual > 0 else sums.weight
        parts.append((size, n, mean, ends))
    total = sum(size for size, *_ in parts)
    first = parts[0][2]  # so that one stratum has its own mean, to the last digit
    mean = first + sum(size * (own - first) for size, _, own, _ in parts) / total
    z = NormalDist().inv_cdf(0.975)
    shares = sum((z * size * (own - mean)) ** 2 / (n + SHARE_COUNT) for size, n, own, _ in parts)
    down = sqrt(shares + sum((size * (own - ends[0])) ** 2 for size, _, own, ends in parts)) / total
    up = sqrt(shares + sum((size * (ends[1] - own)) ** 2 for size, _, own, ends in parts)) / total
    return mean, max(mean - down, lowest), min(mean + up, highest)


MOST_POLICIES = 32
"""Maximum policies remembered; a budget that lowers rates creates one per step."""
AWAITED_SHARE = 0.2
"""Share of the traffic under the policy before from which a stratum is awaited under a new one."""
LONGEST_WAIT = 500
"""Samples after which a new policy is used without the strata that it awaits."""
FORGET_AFTER = 200
"""Samples of a stratum after which its largest weight is forgotten, if none came near it."""
FORGET_GAPS = 20
"""As many mean gaps between samples near the largest weight must pass, too."""
_OTHERS = "*"


@dataclass(slots=True)
class StratumWeight:
    """The largest weight of one stratum of a policy, which is forgotten in time, and the sum of all."""

    largest: float = 0.0
    near: int = 0
    """Samples of at least half the largest weight."""
    between: int = 0
    """Samples from the first to the latest of them."""
    since: int = 0
    """Samples since the latest of them."""
    following: float = 0.0
    """The largest weight since."""
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
class Policy:
    """The scales of a policy's strata; the strata that it awaits; its samples so far."""

    strata: dict[str, StratumWeight] = field(default_factory=dict)
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
            scale = self.strata[stratum] = StratumWeight()
        scale.add(weight)
        return 0.0 if waits or not largest else min(weight / largest, 1.0)


@dataclass(slots=True)
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

    policies: OrderedDict[str, Policy] = field(default_factory=OrderedDict)

    def share(self, policy: str, stratum: str, weight: float) -> float:
        """Add a sample's weight, at least 1; return its share of the largest before it, 0 if not known."""
        known = self.policies.get(policy)
        if known is None:
            known = self.policies[policy] = self._begin(policy)
            if len(self.policies) > MOST_POLICIES:
                self.policies.popitem(last=False)
        self.policies.move_to_end(policy)
        return known.share(stratum, weight)

    def _begin(self, policy: str) -> Policy:
        base, _, lowered = policy.rpartition("*")
        known = self.policies.get(base)
        if known is None:
            return Policy(awaited=self._usual_strata())
        numerator, _, denominator = lowered.partition("/")
        try:
            factor = float(denominator or 1) / float(numerator)
        except (ValueError, ZeroDivisionError):
            factor = 1.0
        scales = {
            name: StratumWeight(one.largest * factor, 1, traffic=one.traffic)
            for name, one in known.strata.items()
        }
        return Policy(scales, set(known.awaited))

    def _usual_strata(self) -> set[str]:
        if not self.policies:
            return set()
        latest = next(reversed(self.policies.values()))
        whole = sum(one.traffic for one in latest.strata.values())
        return latest.awaited | {
            name for name, one in latest.strata.items() if one.traffic >= AWAITED_SHARE * whole
        }
