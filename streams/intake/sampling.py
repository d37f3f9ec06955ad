"""Sample events: randomness R, threshold T, rates by stratum, one event's decision and its probability. Pure.

An event is kept iff R >= T, 56 bits each; its inclusion probability is then exactly (2^56 - T) / 2^56. Rule
and entries (`ot=rv:...;th:...`) are those of OpenTelemetry's specifications of consistent probability
sampling and of tracestate. So a redelivered event gets the same decision, and raising a rate drops no event.

R is, in this order: the `rv` value of tracestate; the last 14 digits of the trace id; the first seven bytes,
big endian, of SHA-256 over the event id in UTF-8. With `record_key` it is the hash of the record's key, if it
has one. Malformed trace context is ignored, because the event matters more than its trace.

Earlier sampling (`upstream`) with threshold T0 (the `th` value): `equalize` keeps iff R >= max(T0, T1), with
probability (2^56 - max(T0, T1)) / 2^56; `proportional` applies our rate to the events that arrive, with the
product of both; `ignore` is correct if the topic holds all answers. If R < T0, the upstream sampler did not
decide by this R, and T0 is unknown. A probability p0 that a producer states (`sampling_probability`) comes
without its randomness. R is then a separate hash of the event id: `equalize` keeps iff R >= T(p1/p0), with
probability min(p0, p1); `proportional` iff R >= T(p1), with p0 * p1.
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
_DIGITS: Final = RANDOM_BITS // 4
NO_TRACE: Final = "0" * 32
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_THRESHOLD_VALUE: Final = re.compile(r"[0-9a-f]{1,14}", re.ASCII)
_RANDOM_VALUE: Final = re.compile(r"[0-9a-f]{14}", re.ASCII)
SkipReason = Literal["filtered", "not_sampled"]
"""filtered: the stratum's rate is 0; not_sampled: the event's randomness is below the threshold."""


def threshold(rate: Fraction | float) -> int:
    """Return T of a rate, from 0 (keep all) to 2^56 (none), rounded so that no positive rate keeps none."""
    exact = Fraction(rate)
    if not 0 <= exact <= 1:
        raise ValueError(f"rate must be from 0 to 1, got {rate}; choose a share")
    return RANGE - math.ceil(exact * RANGE)


def probability(threshold_: int) -> Fraction:
    return Fraction(RANGE - threshold_, RANGE)


def trace_randomness(trace_id: str | None, tracestate: str | None) -> int | None:
    """Return R of a trace context; None without a valid one (32 lower-case hexadecimal digits)."""
    if trace_id is None or trace_id == NO_TRACE or not _TRACE_ID.fullmatch(trace_id):
        return None
    explicit = random_value(tracestate)
    return int(trace_id[-_DIGITS:], 16) if explicit is None else explicit


def hashed_randomness(identity: bytes) -> int:
    return int.from_bytes(sha256(identity).digest()[:7], "big")


def event_randomness(event_id: str, trace_id: str | None, tracestate: str | None) -> int:
    traced = trace_randomness(trace_id, tracestate)
    return hashed_randomness(event_id.encode()) if traced is None else traced


def random_value(tracestate: str | None) -> int | None:
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


def inclusion(threshold_: int, before: Before | None) -> Fraction:
    """Return the exact inclusion probability of a threshold, combined with earlier sampling."""
    here = probability(threshold_)
    return here * probability(before.threshold) if before is not None and before.independent else here


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
        return inclusion(self.threshold, self.before)

    def for_metric(self, rate: Fraction | float) -> Decision:
        """Decide for a metric whose rate is a share of the sampled events; the same R keeps a subset."""
        return self if rate == 1 else self._at(self.rate * Fraction(rate), self.policy)

    def of_all(self, rate: Fraction | float) -> Decision:
        """Decide for a metric whose rate is a share of all events, except those of strata with rate 0."""
        return self._at(Fraction(rate) if self.rate else self.rate, self.policy)

    def lowered(self, factor: Fraction, suffix: str | None = None) -> Decision:
        """Decide at a temporarily lowered rate; `suffix` names it in the policy, empty for no change.

        The factor (above 0, at most 1) may depend on earlier events, but not on this one: then an event is
        kept with exactly the probability of the decision, and weighting by it stays unbiased. R is the same,
        so a redelivered event with decisions at two rates has the probability of the higher one.
        """
        if suffix is None:
            suffix = "" if factor == 1 else f"*{factor}"
        return self._at(self.rate * factor, f"{self.policy}{suffix}") if suffix else self

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

    def fits(self, labels: Mapping[str, str]) -> bool:
        # A plain loop: this runs for every record whose labels are read, and a generator takes twice as long.
        for name, values in self.values:  # noqa: SIM110 - see above
            if labels.get(name) not in values:  # a missing label is None, which is not in the set
                return False
        return True


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    when: LabelsCondition
    rate: float


@dataclass(frozen=True, slots=True)
class SamplingStratum:
    name: str
    rate: Fraction
    threshold: int
    least: bytes
    """The threshold as bytes, for comparison with a digest or with R in 7 bytes."""
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
            dict.fromkeys(name for rule in rules for name, _ in rule.when.values)
        )
        """The labels that determine the stratum; empty if it is always the default one."""
        limits = [self._default.threshold, *(stratum.threshold for _, stratum in self._rules)]
        self.least_threshold: int = min(limits)
        self.keeps_all: bool = not any(limits)
        named: list[object] = [
            [rule.name, str(Fraction(rule.rate)), [[name, sorted(given)] for name, given in rule.when.values]]
            for rule in rules
        ]
        content = [
            key,
            str(Fraction(default_rate)),
            named,
            *(() if upstream == "ignore" else (upstream, floor)),
        ]
        digest = sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
        self.name = f"{CLUSTERED_POLICY if key == 'record_key' else 'consistent-'}{digest[:8]}"

    def stratum(self, labels: Mapping[str, str]) -> SamplingStratum:
        for when, stratum in self._rules:
            if when.fits(labels):
                return stratum
        return self._default

    def key_randomness(self, record_key: bytes | None) -> int | None:
        """Return R of the record's key; None if R is derived from the event."""
        return hashed_randomness(record_key) if self.key == "record_key" and record_key else None

    def decide_event(self, event: QAEvent, record_key: bytes | None) -> Decision:
        randomness = of_key = self.key_randomness(record_key)
        before, stated = None, event.sampling_probability
        if self.upstream != "ignore" and stated is not None and stated >= self._floor:
            before = Before(self.upstream, threshold(stated), independent=True)
            if randomness is None:
                randomness = hashed_randomness(b"upstream:" + event.event_id.encode())
        else:
            if randomness is None:
                randomness = event_randomness(event.event_id, event.trace_id, event.tracestate)
            limit = None if self.upstream == "ignore" else upstream_threshold(event.tracestate)
            # R of the key is independent of the trace's.
            if (
                limit is not None
                and limit <= self._highest_limit
                and (of_key is not None or randomness >= limit)
            ):
                before = Before(self.upstream, limit, independent=of_key is not None)
        stratum = self.stratum(event.labels)
        return Decision(
            randomness=randomness,
            rate=stratum.rate,
            threshold=stratum.threshold if before is None else before.apply(stratum.rate),
            stratum=stratum.name,
            policy=self.name,
            before=before,
        )


def _stratum(name: str, rate: float) -> SamplingStratum:
    limit = threshold(rate)
    if limit == RANGE:  # above every digest
        return SamplingStratum(name, Fraction(rate), limit, b"\xff" * 33, "filtered")
    return SamplingStratum(name, Fraction(rate), limit, limit.to_bytes(RANDOM_BITS // 8), "not_sampled")
