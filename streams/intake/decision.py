"""What sampling says of one event, and with which probability. Pure.

What was sampled before it came here (`upstream`): an event of a trace that a sampler kept with threshold T0
(the `th` value of the `ot` entry) is in the sample with less than our own rate says. `equalize` keeps iff R
>= max(T0, T1), so that the inclusion probability is (2^56 - max(T0, T1)) / 2^56; `proportional` takes our
rate as a share of what arrives, so that it is the product of both; `ignore` leaves T0 unread, which is right
where the topic holds all answers, whether their traces were sampled or not. Where R < T0 the sampler upstream
did not decide by this R, and T0 is treated as unknown.

A probability that a producer states outright (`sampling_probability`) says nothing of the randomness behind
it. R is then a hash of its own of the event id, independent of whatever decided upstream: `equalize` keeps
iff R >= T(p1/p0), with probability min(p0, p1); `proportional` iff R >= T(p1), with probability p0 * p1.
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
    """What sampled an event before it came here.

    Args:
        mode: equalize or proportional.
        threshold: Its T0.
        independent: Whether it decided by another randomness than our R.
    """

    mode: Upstream
    threshold: int
    independent: bool = False

    def apply(self, rate: Fraction) -> int:
        """Give the threshold that R has to meet for our rate."""
        share = probability(self.threshold)
        if self.mode == "proportional":
            return threshold(rate if self.independent else rate * share)
        if self.independent:
            return threshold(min(Fraction(1), rate / share))
        return max(self.threshold, threshold(rate))

    @property
    def share(self) -> Fraction:
        """By what the probability that R's threshold means has to be multiplied."""
        return probability(self.threshold) if self.independent else Fraction(1)


def inclusion(threshold_: int, before: Before | None) -> Fraction:
    """Give the inclusion probability of what R's threshold keeps, of what was kept before; exact."""
    here = probability(threshold_)
    return here if before is None else here * before.share


@dataclass(frozen=True, slots=True)
class Decision:
    """What sampling says of one event.

    Args:
        randomness: The event's R.
        rate: The stratum's rate, exact.
        threshold: The T that R has to meet: that of the rate, and of what sampled before.
        stratum: The rule that spoke, or "default".
        policy: Name of the policy that decided.
        before: What sampled the event before it came here; None where nothing did or it is not known.
    """

    randomness: int
    rate: Fraction
    threshold: int
    stratum: str
    policy: str
    before: Before | None = None

    @property
    def keep(self) -> bool:
        """Whether the event is judged at all."""
        return self.randomness >= self.threshold

    @property
    def skip_reason(self) -> SkipReason | None:
        """Why the event is not judged; None when it is."""
        if self.keep:
            return None
        return "filtered" if self.threshold == RANGE else "not_sampled"

    @property
    def probability(self) -> Fraction:
        """Inclusion probability of the event, exact: of being kept here and by what sampled before."""
        return inclusion(self.threshold, self.before)

    def for_metric(self, rate: Fraction | float) -> Decision:
        """Decide for one metric, whose rate is a share of the sampled events.

        The same R meets the threshold of the product of both rates, so what a metric keeps is always part of
        what sampling keeps, and the probability is that of the event for this metric.
        """
        if rate == 1:
            return self
        return self._at(self.rate * Fraction(rate), self.policy)

    def of_all(self, rate: Fraction | float) -> Decision:
        """Decide for one metric whose rate is a share of all events, whatever share is sampled.

        A stratum with the rate 0 is left out of everything.
        """
        return self._at(Fraction(rate) if self.rate else self.rate, self.policy)

    def lowered(self, factor: Fraction) -> Decision:
        """Decide at a lower rate, for the moment.

        The factor may follow from what happened before, but not from this event. Given that, what is kept is
        kept with exactly the probability that the decision names, and weighting by it stays unbiased. The
        same R meets both thresholds: what a lower rate keeps, a higher one keeps as well, so that a
        redelivered event which was decided upon at two rates is in the sample with the probability of the
        higher one.

        Args:
            factor: Share of what the policy keeps, above 0 and at most 1.
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
