"""Which events are judged: consistent probability sampling, a pure function of the event.

Each event has 56 bits of randomness R. A rate p gives a threshold T, and the event is kept iff R >= T; its
inclusion probability is then exactly (2^56 - T) / 2^56. The rule and the `ot=rv:` entry of tracestate are
those of OpenTelemetry's specification of consistent probability sampling and of tracestate handling. Two
things follow: a redelivered event meets the same decision, and raising a rate never drops an event that was
kept.

R comes from, in this order: the `rv` value of the `ot` entry in tracestate (14 hexadecimal digits); the last
14 digits of the trace id, unless the id is all zeros, which W3C Trace Context calls invalid; the first seven
bytes, big endian, of SHA-256 over the event id in UTF-8. With `record_key` it is the hash of the record's key
instead, so that all events with one key stand or fall together; a record without a key (or with an empty one)
falls back to the first list.

What was sampled before it came here (`upstream`): an event of a trace that a sampler kept with threshold T0 (the `th`
value of the `ot` entry) is in the sample with less than our own rate says. `equalize` keeps iff R >= max(T0, T1), so that the
inclusion probability is (2^56 - max(T0, T1)) / 2^56; `proportional` takes our rate as a share of what arrives, so that it is
the product of both; `ignore` leaves T0 unread, which is right where the topic holds all answers, whether their traces were
sampled or not. Where R < T0 the sampler upstream did not decide by this R, and T0 is treated as unknown.

A probability that a producer states outright (`sampling_probability`) says nothing of the randomness behind it. R is then
a hash of its own of the event id, independent of whatever decided upstream: `equalize` keeps iff R >= T(p1/p0), with
probability min(p0, p1); `proportional` iff R >= T(p1), with probability p0 * p1.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from schemas import QAEvent
from schemas.base import CLUSTERED_POLICY, DEFAULT_STRATUM, SamplingKey, Upstream
from streams.intake.conditions import LabelsCondition
from streams.intake.tracestate import random_value, upstream_threshold

RANDOM_BITS: Final = 56
RANGE: Final = 1 << RANDOM_BITS
"""Number of values that R can have."""
SkipReason = Literal["filtered", "not_sampled"]
"""filtered: the stratum's rate is 0; not_sampled: the event's randomness is below the threshold."""

_TRACE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NO_TRACE: Final = "0" * 32


def threshold(rate: Fraction | float) -> int:
    """Turn a rate into the threshold T.

    The number of kept values is p * 2^56 rounded up, so that no positive rate rounds to none.

    Args:
        rate: Share to keep, 0 to 1; a float is taken as the exact binary fraction it is.

    Returns:
        From 0 (all are kept) to 2^56 (none is).

    Raises:
        ValueError: The rate is not within 0 to 1.
    """
    exact = Fraction(rate)
    if not 0 <= exact <= 1:
        raise ValueError(f"rate must be from 0 to 1, got {rate}; choose a share")
    return RANGE - math.ceil(exact * RANGE)


def probability(threshold_: int) -> Fraction:
    """Give the inclusion probability that a threshold means, exactly."""
    return Fraction(RANGE - threshold_, RANGE)


def trace_randomness(trace_id: str | None, tracestate: str | None) -> int | None:
    """Read R from a trace context; None where it gives none.

    Args:
        trace_id: W3C trace id, 32 lower-case hexadecimal digits.
        tracestate: W3C tracestate; read only beside a valid trace id, as W3C Trace Context says.
    """
    if trace_id is None or trace_id == _NO_TRACE or not _TRACE_ID.fullmatch(trace_id):
        return None
    explicit = random_value(tracestate)
    return int(trace_id[-14:], 16) if explicit is None else explicit


def hashed_randomness(identity: bytes) -> int:
    """Derive R from an identity: the first seven bytes of its SHA-256, big endian."""
    return int.from_bytes(hashlib.sha256(identity).digest()[:7], "big")


def event_randomness(event_id: str, trace_id: str | None, tracestate: str | None) -> int:
    """Give the R of an event: from its trace context, else from its id."""
    traced = trace_randomness(trace_id, tracestate)
    return hashed_randomness(event_id.encode()) if traced is None else traced


@dataclass(frozen=True, slots=True)
class Rule:
    """A stratum of the events with a rate of its own."""

    name: str
    when: LabelsCondition
    rate: float


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

    def lowered(self, factor: Fraction) -> Decision:
        """Decide at a lower rate, for the moment.

        The factor may follow from what happened before, but not from this event. Given that, what is kept is kept with
        exactly the probability that the decision names, and weighting by it stays unbiased. The same R
        meets both thresholds: what a lower rate keeps, a higher one keeps as well, so that a redelivered event which was decided
        upon at two rates is in the sample with the probability of the higher one.

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


@dataclass(frozen=True, slots=True)
class Stratum:
    """A stratum with its threshold worked out."""

    name: str
    rate: Fraction
    threshold: int
    skip_reason: SkipReason


class SamplingPolicy:
    """Rates by stratum; the first rule that fits decides.

    Args:
        default_rate: Share of the events that no rule fits, 0 to 1.
        rules: In order of precedence; names distinct.
        key: Where R comes from, see the module.
        upstream: What is made of a sampler that decided before us, see the module.

    Raises:
        ValueError: A rate is not within 0 to 1.
    """

    def __init__(
        self,
        *,
        default_rate: float = 1.0,
        rules: Sequence[Rule] = (),
        key: SamplingKey = "auto",
        upstream: Upstream = "ignore",
    ) -> None:
        self.key: SamplingKey = key
        self.upstream: Upstream = upstream
        self._default = _stratum(DEFAULT_STRATUM, default_rate)
        self._rules = tuple((rule.when, _stratum(rule.name, rule.rate)) for rule in rules)
        self.label_names: tuple[str, ...] = tuple(
            dict.fromkeys(name for rule in rules for name in rule.when.names)
        )
        """The labels that decide the stratum; empty where it is always the default one."""
        self.name: str = _name(default_rate, rules, key, upstream)
        """Names this policy: the same rates, rules and key give the same name."""

    @property
    def least_threshold(self) -> int:
        """The T below which no stratum keeps an event."""
        return min(stratum.threshold for stratum in self._strata())

    @property
    def keeps_all(self) -> bool:
        """Whether every event is kept, whatever it is."""
        return all(stratum.threshold == 0 for stratum in self._strata())

    def _strata(self) -> Iterable[Stratum]:
        return (self._default, *(stratum for _, stratum in self._rules))

    def stratum(self, labels: Mapping[str, str]) -> Stratum:
        """Find the stratum of an event by its labels."""
        for when, stratum in self._rules:
            if when.fits(labels):
                return stratum
        return self._default

    def key_randomness(self, record_key: bytes | None) -> int | None:
        """Give R where the record's key decides it; None where the event does."""
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
        """Decide on one event.

        Args:
            event_id: The event's id.
            trace_id: Its trace id, if it has one.
            tracestate: Its tracestate, if it has one.
            labels: Its labels.
            record_key: Key of the record that it came in.
            stated_probability: With which the producer says it was sampled upstream, above 0 and at most 1.
        """
        randomness = self.key_randomness(record_key)
        before = None
        if self.upstream != "ignore" and stated_probability is not None:
            before = Before(self.upstream, threshold(stated_probability), independent=True)
            if randomness is None:
                randomness = hashed_randomness(b"upstream:" + event_id.encode())
        elif randomness is None:
            randomness = event_randomness(event_id, trace_id, tracestate)
            before = self._before(randomness, tracestate)
        elif (limit := self._limit(tracestate)) is not None:
            before = Before(self.upstream, limit, independent=True)  # R is the key's, not the trace's
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
        return None if self.upstream == "ignore" else upstream_threshold(tracestate)

    def decide_event(self, event: QAEvent, record_key: bytes | None) -> Decision:
        """Decide on one decoded event.

        Args:
            event: The event.
            record_key: Key of the record that it came in.
        """
        return self.decide(
            event_id=event.event_id,
            trace_id=event.trace_id,
            tracestate=event.tracestate,
            labels=event.labels,
            record_key=record_key,
            stated_probability=event.sampling_probability,
        )


def _stratum(name: str, rate: float) -> Stratum:
    limit = threshold(rate)
    return Stratum(name, Fraction(rate), limit, "filtered" if limit == RANGE else "not_sampled")


def _name(default_rate: float, rules: Sequence[Rule], key: SamplingKey, upstream: Upstream) -> str:
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
    if upstream != "ignore":
        content.append(upstream)
    digest = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
    return f"{CLUSTERED_POLICY if key == 'record_key' else 'consistent-'}{digest[:8]}"
