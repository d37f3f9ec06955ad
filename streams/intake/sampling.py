"""Sample events: randomness R, threshold T, rates by stratum, one event's decision and its probability. Pure.

An event is kept iff R >= T, 56 bits each; its inclusion probability is then exactly (2^56 - T) / 2^56. Rule
and entries (`ot=rv:...;th:...`) are those of OpenTelemetry's specification of consistent probability sampling
and of tracestate handling. So a redelivered event gets the same decision, and raising a rate never drops an
event that was kept.

R is, in this order: the `rv` value of the `ot` entry in tracestate (14 hexadecimal digits); the last 14
digits of the trace id, unless the id is all zeros, which W3C Trace Context calls invalid; the first seven
bytes, big endian, of SHA-256 over the event id in UTF-8. With `record_key` it is the hash of the record's key
instead, so that all events with one key get the same decision; a record without a key (or with an empty one)
uses the list above. Malformed trace context is ignored, because the event matters more than its trace.

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

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from schemas import QAEvent
from schemas.base import CLUSTERED_POLICY, DEFAULT_STRATUM, SamplingKey, Upstream

RANDOM_BITS: Final = 56
RANGE: Final = 1 << RANDOM_BITS
"""Number of values of R."""
_DIGITS: Final = 14
"""Hexadecimal digits of 56 bits."""
NO_TRACE: Final = "0" * 32
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_THRESHOLD_VALUE: Final = re.compile(r"[0-9a-f]{1,14}", re.ASCII)
_RANDOM_VALUE: Final = re.compile(r"[0-9a-f]{14}", re.ASCII)
SkipReason = Literal["filtered", "not_sampled"]
"""filtered: the stratum's rate is 0; not_sampled: the event's randomness is below the threshold."""


def threshold(rate: Fraction | float) -> int:
    """Return the threshold T of a rate: from 0 (keep all) to 2^56 (keep none).

    The number of kept values is p * 2^56 rounded up, so that no positive rate becomes 0.
    """
    exact = Fraction(rate)
    if not 0 <= exact <= 1:
        raise ValueError(f"rate must be from 0 to 1, got {rate}; choose a share")
    return RANGE - math.ceil(exact * RANGE)


def probability(threshold_: int) -> Fraction:
    """Return the exact inclusion probability of a threshold."""
    return Fraction(RANGE - threshold_, RANGE)


def trace_randomness(trace_id: str | None, tracestate: str | None) -> int | None:
    """Return R of a trace context; None without a valid one (32 lower-case hexadecimal digits)."""
    if trace_id is None or trace_id == NO_TRACE or not _TRACE_ID.fullmatch(trace_id):
        return None
    explicit = random_value(tracestate)
    return int(trace_id[-_DIGITS:], 16) if explicit is None else explicit


def hashed_randomness(identity: bytes) -> int:
    """Return R of an identity: the first seven bytes of its SHA-256, big endian."""
    return int.from_bytes(sha256(identity).digest()[:7], "big")


def event_randomness(event_id: str, trace_id: str | None, tracestate: str | None) -> int:
    """Return R of an event: from its trace context, else from its id."""
    traced = trace_randomness(trace_id, tracestate)
    return hashed_randomness(event_id.encode()) if traced is None else traced


def random_value(tracestate: str | None) -> int | None:
    """Return the explicit randomness of a tracestate; None without a valid one."""
    value = _ot_value(tracestate, "rv")
    return int(value, 16) if value is not None and _RANDOM_VALUE.fullmatch(value) else None


def upstream_threshold(tracestate: str | None) -> int | None:
    """Return the upstream sampler's threshold (trailing zeros omitted); None without a valid one."""
    value = _ot_value(tracestate, "th")
    if value is None or not _THRESHOLD_VALUE.fullmatch(value):
        return None
    return int(value.ljust(_DIGITS, "0"), 16)


def _ot_value(tracestate: str | None, wanted: str) -> str | None:
    if not tracestate or "ot=" not in tracestate:
        return None
    for member in tracestate.split(","):
        vendor, _, entries = member.strip(" \t").partition("=")
        if vendor == "ot":
            named = (entry.partition(":") for entry in entries.split(";"))
            return next((value for name, _, value in named if name == wanted), None)
    return None


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

    def steered(self, part: Fraction, suffix: str) -> Decision:
        """Decide at a part of the rate that a policy with this suffix gives; as for a lowered rate."""
        return self._at(self.rate * part, f"{self.policy}{suffix}") if suffix else self

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
    digest = sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
    return f"{CLUSTERED_POLICY if key == 'record_key' else 'consistent-'}{digest[:8]}"
