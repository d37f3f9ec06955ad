"""The sampling decision of one event, with its inclusion probability. Pure.

Earlier sampling (`upstream`): an event of a trace that a sampler kept with threshold T0 (the `th` value of
the `ot` entry) is included with a lower probability than our rate. `equalize` keeps iff R >= max(T0, T1), so
that the inclusion probability is (2^56 - max(T0, T1)) / 2^56; `proportional` applies our rate to the events
that arrive, so that it is the product of both; `ignore` does not read T0, which is correct if the topic holds
all answers, also those of unsampled traces. If R < T0, the upstream sampler did not decide by this R, and T0
is treated as unknown.

A probability that a producer states (`sampling_probability`) does not include its randomness. R is then a
separate hash of the event id, independent of the upstream decision: `equalize` keeps iff R >= T(p1/p0), with
probability min(p0, p1); `proportional` iff R >= T(p1), with probability p0 * p1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from schemas.base import Upstream
from streams.intake.randomness import RANGE, probability, threshold

SkipReason = Literal["filtered", "not_sampled"]
"""filtered: the stratum's rate is 0; not_sampled: the event's randomness is below the threshold."""


@dataclass(frozen=True, slots=True)
class Before:
    """Sampling of an event before this worker.

    Args:
        mode: equalize or proportional.
        threshold: Its T0.
        independent: Whether it decided by another randomness than our R.
    """

    mode: Upstream
    threshold: int
    independent: bool = False

    def apply(self, rate: Fraction) -> int:
        """Return the threshold for R at our rate."""
        share = probability(self.threshold)
        if self.mode == "proportional":
            return threshold(rate if self.independent else rate * share)
        if self.independent:
            return threshold(min(Fraction(1), rate / share))
        return max(self.threshold, threshold(rate))

    @property
    def share(self) -> Fraction:
        """Factor for the probability that R's threshold gives."""
        return probability(self.threshold) if self.independent else Fraction(1)


def inclusion(threshold_: int, before: Before | None) -> Fraction:
    """Return the exact inclusion probability of a threshold, combined with earlier sampling."""
    here = probability(threshold_)
    return here if before is None else here * before.share


@dataclass(frozen=True, slots=True)
class Decision:
    """The sampling decision of one event.

    Args:
        randomness: The event's R.
        rate: The stratum's rate, exact.
        threshold: The T for R: from the rate and earlier sampling.
        stratum: Name of the matching rule, or "default".
        policy: Name of the policy that decided.
        before: Earlier sampling; None if there was none or it is unknown.
    """

    randomness: int
    rate: Fraction
    threshold: int
    stratum: str
    policy: str
    before: Before | None = None

    @property
    def keep(self) -> bool:
        """Whether the event is judged."""
        return self.randomness >= self.threshold

    @property
    def skip_reason(self) -> SkipReason | None:
        """Why the event is not judged; None if it is."""
        if self.keep:
            return None
        return "filtered" if self.threshold == RANGE else "not_sampled"

    @property
    def probability(self) -> Fraction:
        """Exact inclusion probability of the event, including earlier sampling."""
        return inclusion(self.threshold, self.before)

    def for_metric(self, rate: Fraction | float) -> Decision:
        """Decide for one metric, whose rate is a share of the sampled events.

        The same R is compared with the threshold of the product of both rates, so a metric keeps a subset of
        the sampled events, and the probability is that of the event for this metric.
        """
        if rate == 1:
            return self
        return self._at(self.rate * Fraction(rate), self.policy)

    def of_all(self, rate: Fraction | float) -> Decision:
        """Decide for one metric, whose rate is a share of all events, independent of the sampling rate.

        A stratum with rate 0 is excluded.
        """
        return self._at(Fraction(rate) if self.rate else self.rate, self.policy)

    def lowered(self, factor: Fraction) -> Decision:
        """Decide at a temporarily lowered rate.

        The factor may depend on earlier events, but not on this one. Given that, an event is kept with
        exactly the probability of the decision, and weighting by it stays unbiased. The same R is compared
        with both thresholds: an event kept at a lower rate is also kept at a higher one, so a redelivered
        event with decisions at two rates is in the sample with the probability of the higher one.

        Args:
            factor: Share of the policy's rate, above 0 and at most 1.
        """
        if factor == 1:
            return self
        return self._at(self.rate * factor, f"{self.policy}*{factor}")

    def _at(self, rate: Fraction, policy: str) -> Decision:
        return Decision(
            randomness=self.randomness,
            rate=rate,
            threshold=threshold(rate) if self.before is None else self.before.apply(rate),
            stratum=self.stratum,
            policy=policy,
            before=self.before,
        )
