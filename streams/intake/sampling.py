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

Deviation from the specification: the upstream threshold (`th`) is not read. Whether a trace was sampled for
tracing says nothing about whether its answer reached the topic.
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
from schemas.base import CLUSTERED_POLICY, DEFAULT_STRATUM, SamplingKey
from streams.intake.conditions import LabelsCondition

RANDOM_BITS: Final = 56
RANGE: Final = 1 << RANDOM_BITS
"""Number of values that R can have."""
SkipReason = Literal["filtered", "not_sampled"]
"""filtered: the stratum's rate is 0; not_sampled: the event's randomness is below the threshold."""

_RANDOM_VALUE = re.compile(r"[0-9a-f]{14}", re.ASCII)
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


def random_value(tracestate: str | None) -> int | None:
    """Read explicit randomness from tracestate; None where there is none that is well formed."""
    if not tracestate or "ot=" not in tracestate:
        return None
    for member in tracestate.split(","):
        vendor, _, entries = member.strip(" \t").partition("=")
        if vendor == "ot":
            for entry in entries.split(";"):
                name, _, value = entry.partition(":")
                if name == "rv":
                    return int(value, 16) if _RANDOM_VALUE.fullmatch(value) else None
            return None
    return None


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
class Decision:
    """What sampling says of one event.

    Args:
        randomness: The event's R.
        rate: The stratum's rate, exact.
        threshold: The T of that rate.
        stratum: The rule that spoke, or "default".
        policy: Name of the policy that decided.
    """

    randomness: int
    rate: Fraction
    threshold: int
    stratum: str
    policy: str

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
        """Inclusion probability of the event, exact."""
        return probability(self.threshold)

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
            threshold=threshold(rate),
            stratum=self.stratum,
            policy=policy,
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

    Raises:
        ValueError: A rate is not within 0 to 1.
    """

    def __init__(
        self, *, default_rate: float = 1.0, rules: Sequence[Rule] = (), key: SamplingKey = "auto"
    ) -> None:
        self.key: SamplingKey = key
        self._default = _stratum(DEFAULT_STRATUM, default_rate)
        self._rules = tuple((rule.when, _stratum(rule.name, rule.rate)) for rule in rules)
        self.label_names: tuple[str, ...] = tuple(
            dict.fromkeys(name for rule in rules for name in rule.when.names)
        )
        """The labels that decide the stratum; empty where it is always the default one."""
        self.name: str = _name(default_rate, rules, key)
        """Names this policy: the same rates, rules and key give the same name."""

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
    ) -> Decision:
        """Decide on one event.

        Args:
            event_id: The event's id.
            trace_id: Its trace id, if it has one.
            tracestate: Its tracestate, if it has one.
            labels: Its labels.
            record_key: Key of the record that it came in.
        """
        randomness = self.key_randomness(record_key)
        if randomness is None:
            randomness = event_randomness(event_id, trace_id, tracestate)
        stratum = self.stratum(labels)
        return Decision(
            randomness=randomness,
            rate=stratum.rate,
            threshold=stratum.threshold,
            stratum=stratum.name,
            policy=self.name,
        )

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
        )


def _stratum(name: str, rate: float) -> Stratum:
    limit = threshold(rate)
    return Stratum(name, Fraction(rate), limit, "filtered" if limit == RANGE else "not_sampled")


def _name(default_rate: float, rules: Sequence[Rule], key: SamplingKey) -> str:
    content = [
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
    digest = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
    return f"{CLUSTERED_POLICY if key == 'record_key' else 'consistent-'}{digest[:8]}"
