"""Compares what a worker wrote with what it was given, from the topics alone.

The checker knows the published contract and imports no code of the worker. It computes the expected outcome
of each event from its bytes and the policy, by the rule of the design, and reads the actual one from the task
topics, the scores and the dead letters. Then read = undecodable + unroutable + skipped + sampled and due
(event and metric) = results + dead letters must hold, with exactly one `result_id` for each event and metric.
A record written twice is a duplicate, which at-least-once delivery allows and `result_id` removes; it is
counted and no problem. An answer that is judged again, under a replay id, counts apart: each such task has
its result, and none is there without its task.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Literal

RANDOM_BITS: Final = 56
MAX_SHOWN: Final = 5

Pair = tuple[str, str]
"""Event id and metric."""
Place = tuple[str, int, int]
"""Topic, partition, offset."""
Outcome = Literal["undecodable", "unroutable", "skipped", "sampled"]


@dataclass(frozen=True, slots=True)
class Record:
    topic: str
    partition: int
    offset: int
    value: bytes | None

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.offset


@dataclass(frozen=True, slots=True)
class MetricRule:
    """The events that a metric judges: those of its apps, at a rate of the sampled ones or of all.

    A metric of whole conversations judges all events of a `conversation_id` as one, under that id.
    """

    apps: frozenset[str]
    rate: float = 1.0
    of_all: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    rate: float
    metrics: Mapping[str, MetricRule]

    @property
    def keeps_together(self) -> bool:
        """Whether events are sampled by their conversation, which is the record key."""
        return any(rule.whole for rule in self.metrics.values())


@dataclass(frozen=True, slots=True)
class Written:
    events: Sequence[Record]
    tasks: Mapping[str, Sequence[Record]]
    scores: Sequence[Record]
    dead_letters: Sequence[Record]


@dataclass(slots=True)
class Report:
    """Counts of events (read, outcomes), of pairs (due, results, dead letters, failed), and the problems."""

    read: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    due: int = 0
    results: int = 0
    dead_letters: int = 0
    duplicates: int = 0
    failed: set[Pair] = field(default_factory=set)
    duplicate_tasks: int = 0
    duplicate_dead_letters: int = 0
    lost: int = 0
    """Events or pairs without an outcome."""
    invented: int = 0
    """Tasks, results, ids and dead letters without a cause."""
    problems: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, what: Iterable[object]) -> int:
        """Add problems of one kind and return their number."""
        listed = [str(one) for one in what]
        if listed:
            self.problems.setdefault(kind, []).extend(listed)
        return len(listed)

    def __str__(self) -> str:
        lines = [
            (
                f"{kind}: {len(what)} "
                f"({', '.join(sorted(what)[:MAX_SHOWN])}{', ...' if len(what) > MAX_SHOWN else ''})"
            )
            for kind, what in self.problems.items()
        ]
        counts = (
            f"read {self.read}, {dict(self.outcomes)}, due {self.due}, results {self.results}, dead "
            f"letters {self.dead_letters}, "
            f"lost {self.lost}, invented {self.invented}"
        )
        return "\n".join([counts, *lines])


def expected(value: bytes | None, policy: Policy) -> tuple[Outcome, frozenset[str]]:
    """The expected outcome of an event and the metrics that must judge it.

    The 56 bits of randomness are the first seven bytes of SHA-256 over the event id (the events of this suite
    have no trace context); the event is kept if they are at least (1 - p) * 2^56. An event that sampling and
    the rates of all events pass by is skipped even if it is invalid.
    """
    try:
        event = json.loads(value or b"")
        identity = event["conversation_id" if policy.keeps_together else "event_id"]
        randomness = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:7], "big")
    except (ValueError, TypeError, KeyError, AttributeError):
        return "undecodable", frozenset()
    # A rate of 0 excludes every event.
    free = [rule.rate for rule in policy.metrics.values() if rule.of_all and policy.rate]
    read = max(policy.rate, *free, 0)
    if not _kept(randomness, Fraction(read)):
        return "skipped", frozenset()
    if not isinstance(event.get("question"), str) or not isinstance(event.get("answer"), str):
        return "undecodable", frozenset()
    app = event.get("labels", {}).get("app")
    sampled = _kept(randomness, Fraction(policy.rate))
    fitting = {name: rule for name, rule in policy.metrics.items() if app in rule.apps}
    if sampled and not fitting:
        return "unroutable", frozenset()
    judging = frozenset(
        name
        for name, rule in fitting.items()
        if _kept(randomness, Fraction(rule.rate) * (1 if rule.of_all else Fraction(policy.rate)))
    )
    return ("sampled" if judging else "skipped"), judging


def _kept(randomness: int, rate: Fraction) -> bool:
    return randomness >= (1 << RANDOM_BITS) - math.ceil(rate * (1 << RANDOM_BITS))


def result_id(topic: str, event_id: str, metric: str, replay_id: str | None = None) -> str:
    """The published id of a result; of a live one without a replay id."""
    parts = json.dumps([topic, event_id, metric, replay_id], separators=(",", ":"))
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def check(written: Written, policy: Policy) -> Report:
    """Compare what was written with what was given."""
    return _Check(written, policy).report()


class _Check:
    def __init__(self, written: Written, policy: Policy) -> None:
        self._written = written
        self._policy = policy
        self._report = Report(read=len(written.events))
        self._events = {record.place: record for record in written.events}
        self._expected = {place: expected(record.value, policy) for place, record in self._events.items()}
        self._pairs: dict[Pair, list[Place]] = defaultdict(list)
        for place, (_, metrics) in self._expected.items():
            for metric in metrics:
                self._pairs[self._pair(place, metric)].append(place)
        self._topic = written.events[0].topic if written.events else ""
        self._set_aside: set[Place] = set()
        self._judged: set[Pair] = set()
        self._letters: Counter[Place] = Counter()
        self._again: dict[Place, str] = {}
        """The result ids of tasks under a replay id."""

    def _pair(self, place: Place, metric: str) -> Pair:
        """The ids under which a metric judges an event."""
        document = _document(self._events[place])
        name = "conversation_id" if self._policy.metrics[metric].whole else "event_id"
        return str(document[name]), metric

    def report(self) -> Report:
        report = self._report
        report.due = len(self._pairs)
        task_pairs = self._check_tasks()
        aside_tasks = self._check_dead_letters(task_pairs)
        self._check_results()
        aside = aside_tasks | {
            pair for pair, places in self._pairs.items() if any(place in self._set_aside for place in places)
        }
        report.note("both judged and set aside", self._judged & aside)
        report.results = len(self._judged)
        report.dead_letters = len(aside)
        report.lost += report.note("without an outcome", self._pairs.keys() - self._judged - aside)
        self._check_events(set(task_pairs.values()))
        if report.read != sum(report.outcomes.values()):
            report.note("read is not the sum of the outcomes", [dict(report.outcomes)])
        if report.due != report.results + report.dead_letters:
            report.note(
                "due is not results and dead letters", [(report.due, report.results, report.dead_letters)]
            )
        return report

    def _check_tasks(self) -> dict[Place, Pair]:
        pairs: dict[Place, Pair] = {}
        for metric, records in self._written.tasks.items():
            for record in records:
                task = _document(record)
                pair = (task.get("event_id", ""), task.get("metric", ""))
                pairs[record.place] = pair
                if task.get("replay_id") is not None:
                    self._again[record.place] = result_id(self._topic, *pair, task["replay_id"])
                if task.get("metric") != metric:
                    self._report.note("task on another metric's topic", [record.place])
        distinct = set(pairs.values())
        self._report.duplicate_tasks = len(pairs.keys() - self._again.keys()) - len(distinct)
        invented = self._report.note("task that is not due", distinct - self._pairs.keys())
        self._report.invented += invented
        return pairs

    def _check_dead_letters(self, task_pairs: Mapping[Place, Pair]) -> set[Pair]:
        """Record which events are dead letters; returns the pairs whose tasks are."""
        letters = self._letters
        aside: set[Pair] = set()
        for record in self._written.dead_letters:
            letter = _document(record)
            place = (letter.get("topic", ""), letter.get("partition", -1), letter.get("offset", -1))
            letters[place] += 1
            if place in self._again:
                continue
            if place in task_pairs:
                aside.add(task_pairs[place])
                continue
            if place not in self._events:
                self._report.invented += self._report.note(
                    "dead letter of a record that does not exist", [place]
                )
                continue
            self._set_aside.add(place)
            outcome, _ = self._expected[place]
            fits = {
                "undecodable": letter.get("reason") in {"undecodable", "oversized"},
                "unroutable": letter.get("reason") == "unroutable",
                "sampled": letter.get("reason") == "oversized",
                "skipped": False,
            }[outcome]
            if not fits:
                self._report.note(f"{outcome} event set aside as {letter.get('reason')}", [place])
            value = letter.get("value")
            kept = None if value is None else base64.b64decode(value)
            if not letter.get("truncated") and kept != self._events[place].value:
                self._report.note("dead letter with other bytes than its event", [place])
        self._report.duplicate_dead_letters = letters.total() - len(letters)
        return aside

    def _check_results(self) -> None:
        ids: dict[Pair, Counter[str]] = defaultdict(Counter)
        again = set()
        for record in self._written.scores:
            result = _document(record)
            pair = (result.get("event_id", ""), result.get("metric", ""))
            if result.get("replay_id") is not None:
                again.add(result.get("result_id", ""))
                continue
            ids[pair][result.get("result_id", "")] += 1
            if result.get("status") == "failed":
                self._report.failed.add(pair)
            elif result.get("status") not in {"scored", "unscored"}:
                self._report.note("result without a status", [pair])
        asked = set(self._again.values())
        missing = {name for place, name in self._again.items() if place not in self._letters}
        self._report.lost += self._report.note("judged again without a result", missing - again)
        self._report.invented += self._report.note("judged again without a task", again - asked)
        for pair, counted in ids.items():
            self._report.duplicates += sum(count - 1 for count in counted.values())
            if pair not in self._pairs:
                self._report.invented += self._report.note("result that is not due", [pair])
                continue
            self._judged.add(pair)
            if len(counted) > 1:
                self._report.invented += self._report.note("judged under more than one result_id", [pair])
            elif result_id(self._topic, *pair) not in counted:
                self._report.note("result_id is not that of event and metric", [pair])

    def _check_events(self, routed: set[Pair]) -> None:
        visible = routed | self._judged
        seen_ids = {event_id for event_id, _ in visible}
        for place, (outcome, metrics) in self._expected.items():
            if place in self._set_aside:
                self._report.outcomes["undecodable" if outcome == "sampled" else outcome] += 1
            elif outcome in {"undecodable", "unroutable"}:
                self._report.lost += self._report.note(f"{outcome} and not set aside", [place])
            elif outcome == "sampled":
                event_id = str(_document(self._events[place])["event_id"])
                self._report.outcomes["sampled" if event_id in seen_ids else "skipped"] += 1
                pairs = [self._pair(place, metric) for metric in sorted(metrics)]
                self._report.note("sampled without a task", [pair for pair in pairs if pair not in visible])
            else:
                self._report.outcomes["skipped"] += 1


def _document(record: Record) -> dict[str, Any]:
    """The record as a JSON object; an invalid one has no fields and so counts as invented."""
    try:
        document = json.loads(record.value or b"")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
