"""The agreement of judges with people: the one form of it, for the store and for files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from judge.text.printable import printable
from streams.monitoring.statistics.agreement import kappa, kappa_interval

MOST_VALUES: Final = 12
"""Limit of values in a printed table of choices."""

Choice: TypeAlias = float | str
"""A number, or a name for true, false and labels."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of one judge with people, by the policy that chose the answers."""

    metric: str
    judge: str
    fingerprint: str
    pairs: tuple[tuple[Choice, Choice], ...]
    """A person's choice and the judge's."""
    events: tuple[str, ...]
    """The event of each pair."""
    policy: str = ""
    """The labelling policy and its version, or how else the answers were chosen; empty for a file."""

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        return Counter((_shown(human), _shown(judge)) for human, judge in self.pairs)

    @property
    def same(self) -> int:
        return sum(count for (human, judge), count in self.counts.items() if human == judge)

    @property
    def people(self) -> dict[str, tuple[str, ...]]:
        """People's choices by event id."""
        found: dict[str, tuple[str, ...]] = {}
        for event_id, (human, _) in zip(self.events, self.pairs, strict=True):
            found[event_id] = (*found.get(event_id, ()), _shown(human))
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form; `confusion` counts a person's choice by the judge's."""
        confusion: dict[str, dict[str, int]] = {}
        for (human, judge), count in self.counts.items():
            confusion.setdefault(human, {})[judge] = count
        agreed = {"kappa": kappa(self.pairs), "interval": kappa_interval(self.pairs)}
        named = {"metric": self.metric, "judge": self.judge, "fingerprint": self.fingerprint}
        named |= {"policy": self.policy} if self.policy else {}
        return {**named, **agreed, "labels": len(self.pairs), "same": self.same, "confusion": confusion}

    def lines(self) -> list[str]:
        """Return the text form: a line, and a person's choice (rows) by the judge's (columns)."""
        agreed, ends = kappa(self.pairs), kappa_interval(self.pairs)
        shown = "no kappa (all choices are equal)" if agreed is None else f"kappa {agreed:.2f}"
        between = "" if ends is None else f" (95%: {ends[0]:.2f} to {ends[1]:.2f})"
        same = f"{self.same} of {len(self.pairs)} labels equal the judge's score"
        by = f", labels by {self.policy}" if self.policy else ""
        judge = printable(self.judge, 60)
        told = [f"{self.metric}, {judge} ({self.fingerprint}){by}: {same}, {shown}{between}"]
        choices = {one for pair in self.pairs for one in pair}
        ordered = sorted(choices, key=lambda one: (isinstance(one, str), one))
        values, counts = list(dict.fromkeys(map(_shown, ordered))), self.counts
        if len(values) > MOST_VALUES:
            return told
        table = [["person \\ judge", *values]]
        table += [[human, *(str(counts[human, judge] or "") for judge in values)] for human in values]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        rows = ("  ".join(map(str.rjust, row, widths)).rstrip() for row in table)
        return told + [f"  {row}" for row in rows]


def _shown(choice: Choice) -> str:
    return choice if isinstance(choice, str) else f"{choice:.6g}"


def choice(score: float | None, value: bool | float | str | None) -> Choice:
    """Return a score as it is compared."""
    if value is None:
        return float(score or 0)
    return str(value).lower() if isinstance(value, bool) else value


def agreements(
    labels: Iterable[Mapping[str, Any]], models: Mapping[str, str] | None = None
) -> list[Agreement]:
    """Compare labels, oldest first, with their verdicts: each person's latest, by evaluator and policy.

    A policy is the version of what chose an answer, with its frame; or how it was chosen. `models` are those
    of fingerprints.
    """
    latest = {(one["result_id"], one["who"]): one for one in labels}
    groups: defaultdict[tuple[str, str, str], list[tuple[str, tuple[Choice, Choice]]]] = defaultdict(list)
    for one in latest.values():
        if one["score"] is not None and one["judge_score"] is not None:
            human = choice(one["score"], one.get("value"))
            pair = human, choice(one["judge_score"], one.get("judge_value"))
            chosen = one["selection"]
            policy = chosen.get("policy") or chosen["kind"]
            policy += f" of {chosen['frame']}" if chosen.get("frame") else ""
            groups[one["metric"], one["fingerprint"] or "", policy].append((one["result_id"], pair))
    found = []
    for (metric, fingerprint, policy), given in sorted(groups.items()):
        events, pairs = zip(*given, strict=True)
        judge = (models or {}).get(fingerprint, "judge")
        found.append(Agreement(metric, judge, fingerprint, pairs, events, policy))
    return found
