"""Sample events: rates by stratum, the decision of one event and its inclusion probability. Pure.

See `randomness` for R and T.

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

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, NamedTuple

from schemas import QAEvent
from schemas.base import CLUSTERED_POLICY, DEFAULT_STRATUM, SamplingKey, Upstream
from streams.intake.randomness import (
    RANDOM_BITS,
    RANGE,
    event_randomness,
    hashed_randomness,
    probability,
    threshold,
    upstream_threshold,
)

SkipReason = Literal["filtered", "not_sampled"]
"""filtered: the stratum's rate is 0; not_sampled: the event's randomness is below the threshold."""


@dataclass(frozen=True, slots=True)
class Before:
    """Sampling of an event before this worker, with its threshold T0."""

    mode: Upstream
    threshold: int
    independent: bool = False
    """Whether it decided by another randomness than our R."""

    def apply(self, rate: Fraction) -> int:
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
    """The sampling decision of one event: its R, the exact rate of its stratum, and the T for R."""

    randomness: int
    rate: Fraction
    threshold: int
    stratum: str
    policy: str
    before: Before | None = None
    """Earlier sampling; None if there was none or it is unknown."""

    @property
    def keep(self) -> bool:
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

        The factor is above 0 and at most 1.
        """
        if factor == 1:
            return self
        return self._at(self.rate * factor, f"{self.policy}*{factor}")

    def _at(self, rate: Fraction, policy: str) -> Decision:
        limit = threshold(rate) if self.before is None else self.before.apply(rate)
        return replace(self, rate=rate, threshold=limit, policy=policy)


@dataclass(frozen=True, slots=True)
class LabelsCondition:
    """Every named label has one of its values; without names, every event matches."""

    values: tuple[tuple[str, frozenset[str]], ...] = ()

    @classmethod
    def of(cls, labels: Mapping[str, Iterable[str]]) -> LabelsCondition:
        return cls(tuple((name, frozenset(values)) for name, values in labels.items()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.values)

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match; a missing label does not."""
        # A plain loop: this runs for every record whose labels are read, and a generator takes twice as long.
        for name, values in self.values:  # noqa: SIM110 - see above
            if labels.get(name) not in values:  # a missing label is None, which is not in the set
                return False
        return True


@dataclass(frozen=True, slots=True)
class Rule:
    """A stratum of the events with its own rate."""

    name: str
    when: LabelsCondition
    rate: float


@dataclass(frozen=True, slots=True)
class SamplingStratum:
    """A stratum with its computed threshold."""

    name: str
    rate: Fraction
    threshold: int
    least: bytes
    """The threshold as bytes; a digest or R in 7 bytes that is not below it is kept."""
    skip_reason: SkipReason


class Head(NamedTuple):
    """What sampling needs of a group's parts in one record: first tracestate, and number of beginnings."""

    group: str
    tracestate: str = ""
    begun: int = 0


class SamplingPolicy:
    """Rates by stratum; the first matching rule decides.

    Args:
        floor: Probability of earlier sampling below which it is unknown, above 0: a caller can state any.
    """

    def __init__(
        self,
        *,
        default_rate: float = 1.0,
        rules: Sequence[Rule] = (),
        key: SamplingKey = "auto",
        upstream: Upstream = "ignore",
        floor: float = 0.01,
    ) -> None:
        self.key: SamplingKey = key
        self.upstream: Upstream = upstream
        self._floor = floor
        self._highest_limit = threshold(floor)
        self._default = _stratum(DEFAULT_STRATUM, default_rate)
        self._rules = tuple((rule.when, _stratum(rule.name, rule.rate)) for rule in rules)
        self.label_names: tuple[str, ...] = tuple(
            dict.fromkeys(name for rule in rules for name in rule.when.names)
        )
        """The labels that determine the stratum; empty if it is always the default one."""
        self.name: str = _name(default_rate, rules, key, (upstream, floor))
        """Name of this policy, derived from rates, rules and key."""

    @property
    def least_threshold(self) -> int:
        return min(stratum.threshold for stratum in self._strata())

    @property
    def keeps_all(self) -> bool:
        return all(stratum.threshold == 0 for stratum in self._strata())

    def _strata(self) -> Iterable[SamplingStratum]:
        return (self._default, *(stratum for _, stratum in self._rules))

    def stratum(self, labels: Mapping[str, str]) -> SamplingStratum:
        for when, stratum in self._rules:
            if when.fits(labels):
                return stratum
        return self._default

    def key_randomness(self, record_key: bytes | None) -> int | None:
        """Return R of the record's key; None if R is derived from the event."""
        return hashed_randomness(record_key) if self.key == "record_key" and record_key else None

    def decide(
        self,
        *,
        event_id: str,
        trace_id: str | None = None,
        tracestate: str | None = None,
        labels: Mapping[str, str],
        record_key: bytes | None = None,
        stated_probability: float | None = None,
    ) -> Decision:
        """Decide on one event; `stated_probability` is the producer's, above 0 and at most 1."""
        randomness = self.key_randomness(record_key)
        before = None
        if self.upstream != "ignore" and stated_probability is not None and stated_probability >= self._floor:
            before = Before(self.upstream, threshold(stated_probability), independent=True)
            if randomness is None:
                randomness = hashed_randomness(b"upstream:" + event_id.encode())
        elif randomness is None:
            randomness = event_randomness(event_id, trace_id, tracestate)
            before = self._before(randomness, tracestate)
        elif (limit := self._limit(tracestate)) is not None:
            before = Before(self.upstream, limit, independent=True)  # R is from the key, not the trace
        stratum = self.stratum(labels)
        return Decision(
            randomness=randomness,
            rate=stratum.rate,
            threshold=stratum.threshold if before is None else before.apply(stratum.rate),
            stratum=stratum.name,
            policy=self.name,
            before=before,
        )

    def _before(self, randomness: int, tracestate: str | None) -> Before | None:
        limit = self._limit(tracestate)
        return None if limit is None or randomness < limit else Before(self.upstream, limit)

    def _limit(self, tracestate: str | None) -> int | None:
        limit = None if self.upstream == "ignore" else upstream_threshold(tracestate)
        return None if limit is None or limit > self._highest_limit else limit

    def decide_event(self, event: QAEvent, record_key: bytes | None) -> Decision:
        return self.decide(
            event_id=event.event_id,
            trace_id=event.trace_id,
            tracestate=event.tracestate,
            labels=event.labels,
            record_key=record_key,
            stated_probability=event.sampling_probability,
        )


def _stratum(name: str, rate: float) -> SamplingStratum:
    limit = threshold(rate)
    if limit == RANGE:  # above every digest
        return SamplingStratum(name, Fraction(rate), limit, b"\xff" * 33, "filtered")
    return SamplingStratum(name, Fraction(rate), limit, limit.to_bytes(RANDOM_BITS // 8), "not_sampled")


def _name(
    default_rate: float, rules: Sequence[Rule], key: SamplingKey, upstream: tuple[Upstream, float]
) -> str:
    content: list[object] = [
        key,
        str(Fraction(default_rate)),
        [
            [
                rule.name,
                str(Fraction(rule.rate)),
                [[name, sorted(values)] for name, values in rule.when.values],
            ]
            for rule in rules
        ],
    ]
    if upstream[0] != "ignore":
        content += upstream
    digest = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
    return f"{CLUSTERED_POLICY if key == 'record_key' else 'consistent-'}{digest[:8]}"
