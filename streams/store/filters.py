"""Filters of pages, charts and exports: parsed from a URL's query, turned into SQL. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from streams.errors import BadFilterError
from streams.store.schema import NO_SCORE, STATUSES

MAX_TEXT_CHARS: Final = 200
MAX_LABELS: Final = 8
MAX_MATCHES: Final = 5_000
"""Maximum texts that a search for words finds, the latest ones, to bound its time."""
ANY: Final = "any"

_SPAN = re.compile(r"^(\d{1,6})(s|m|h|d)$")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions on verdicts; None or empty means all.

    Attributes:
        metric: Only this metric.
        status: One of `schema.STATUSES`.
        lowest: Lowest score.
        highest: Highest score.
        labels: Pairs of name and value, all of which are required.
        since: Only answers at or after this time, in milliseconds since 1970.
        until: Only answers before this time.
        evaluator: The evaluator's fingerprint.
        correction: Only this kind of correction, or "any".
        suspicion: Only this kind of suspicion, or "any".
        words: Words that question or answer must contain.
        event_id: Only this event.
        replayed: Replays instead of the live stream.
    """

    metric: str | None = None
    status: str | None = None
    lowest: int | None = None
    highest: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    since: int | None = None
    until: int | None = None
    evaluator: str | None = None
    correction: str | None = None
    suspicion: str | None = None
    words: tuple[str, ...] = ()
    event_id: str | None = None
    replayed: bool = False

    @property
    def summed(self) -> bool:
        """Whether the store's sums suffice: they contain neither words nor single events."""
        return (
            not self.words
            and self.event_id is None
            and not self.replayed
            and self.correction in {None, ANY}
            and self.suspicion in {None, ANY}
        )

    def within(self, since: int, until: int) -> Filter:
        """Return the filter restricted to a shorter time."""
        return replace(
            self,
            since=since if self.since is None else max(since, self.since),
            until=until if self.until is None else min(until, self.until),
        )


def parse(query: Mapping[str, str], labels: Sequence[str], now: datetime) -> Filter:
    """Parse a filter.

    Args:
        query: Parameters by name: metric, status, min, max, since, until, evaluator, correction, suspicion,
            q, event, replay.
        labels: Each `name=value`.
        now: The current time, from which "24h" counts back.

    Raises:
        BadFilterError: A parameter is invalid.
    """
    status = query.get("status") or None
    if status is not None and status not in STATUSES:
        raise BadFilterError(
            f"status must be one of {', '.join(STATUSES)}, got {status[:40]!r}; omit it for all"
        )
    if len(labels) > MAX_LABELS:
        raise BadFilterError(
            f"at most {MAX_LABELS} parameters label are allowed, got {len(labels)}; drop some"
        )
    return Filter(
        metric=query.get("metric") or None,
        status=status,
        lowest=_score(query, "min"),
        highest=_score(query, "max"),
        labels=tuple(_label(text) for text in labels),
        since=_moment(query, "since", now),
        until=_moment(query, "until", now),
        evaluator=query.get("evaluator") or None,
        correction=query.get("correction") or None,
        suspicion=query.get("suspicion") or None,
        words=tuple(_WORD.findall((query.get("q") or "")[:MAX_TEXT_CHARS])),
        event_id=query.get("event") or None,
        replayed=query.get("replay") == "1",
    )


def _score(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not re.fullmatch(r"-?\d{1,6}", text, re.ASCII):
        raise BadFilterError(f"{name} must be a whole score such as 2, got {text[:40]!r}")
    return int(text)


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadFilterError(f"label must be name=value, got {text[:80]!r}")
    return name, value


def _moment(query: Mapping[str, str], name: str, now: datetime) -> int | None:
    text = query.get(name)
    return None if not text else moment(text, now, name)


def moment(text: str, now: datetime, name: str = "since") -> int:
    """Parse a time: "24h" and "7d" count back from now, others are RFC 3339 or a date (UTC).

    Args:
        text: The text.
        now: The current time.
        name: Its name in errors.

    Returns:
        Milliseconds since 1970.

    Raises:
        BadFilterError: It is neither.
    """
    span = _SPAN.match(text)
    if span:
        return round(now.timestamp() * 1000) - int(span[1]) * _SECONDS[span[2]] * 1000
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        return round(found.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadFilterError(
            f"{name} must be a time such as 2026-03-14T09:00:00Z, a date, or a span such as 90m, "
            f"24h or 7d, got {text[:40]!r}"
        ) from None


def conditions(wanted: Filter) -> tuple[list[str], list[Any]]:
    """Return the SQL conditions on the table `verdicts`, except words and labels, with parameters."""
    status = None if wanted.status is None else STATUSES.index(wanted.status)
    pairs: list[tuple[str, Any]] = [
        ("status = ?", status),
        ("metric = (SELECT id FROM names WHERE kind = 'metric' AND name = ?)", wanted.metric),
        ("score >= ?", wanted.lowest),
        (f"score BETWEEN {NO_SCORE + 1} AND ?", wanted.highest),
        ("at >= ?", wanted.since),
        ("at < ?", wanted.until),
        ("evaluator IN (SELECT id FROM evaluators WHERE fingerprint = ?)", wanted.evaluator),
        ("event_id = ?", wanted.event_id),
        (_MARKED.format(sort=0), _kind(wanted.correction)),
        (_MARKED.format(sort=1), _kind(wanted.suspicion)),
    ]
    given = [
        ("replay = ?", int(wanted.replayed)),
        *((sql, value) for sql, value in pairs if value is not None),
    ]
    where = [sql for sql, _ in given]
    where += ["corrected > 0"] if wanted.correction is not None else []
    where += ["suspected > 0"] if wanted.suspicion is not None else []
    return where, [value for _, value in given]


_MARKED: Final = (
    "id IN (SELECT verdict FROM marks WHERE sort = {sort} AND kind = "
    "(SELECT id FROM names WHERE kind = 'kind' AND name = ?))"
)


def _kind(name: str | None) -> str | None:
    return None if name == ANY else name


def selected(
    wanted: Filter, matches: Sequence[int] | None, *, ordered: bool = False
) -> tuple[str, list[Any]]:
    """Return the whole condition on the table `verdicts`, so that SQLite uses the right index.

    Args:
        wanted: The filter.
        matches: Ids of the texts with its words; None if it has no words.
        ordered: Whether there are many verdicts and an index in the order of the result must be used, not one
            of labels or time.
    """
    where, parameters = conditions(wanted)
    named, values = label_sets(wanted)
    if matches is not None:
        where = [f"+{one}" for one in where]
        named.insert(
            0, "result_id IN (SELECT result_id FROM texts WHERE id IN (SELECT value FROM json_each(?)))"
        )
        values.insert(0, json.dumps(list(matches)))
    elif wanted.event_id is not None:
        where = [one if one.startswith("event_id") else f"+{one}" for one in where]
    elif ordered:
        named = [f"+{one}" for one in named]
        where = [f"+{one}" if one.startswith(("at ", "id ")) else one for one in where]
    return " AND ".join([*where, *named]), [*parameters, *values]


def label_sets(wanted: Filter) -> tuple[list[str], list[Any]]:
    """Return the conditions on the labels, for `verdicts` or `cells`."""
    where = ["labels IN (SELECT set_id FROM label_values WHERE name = ? AND value = ?)"] * len(wanted.labels)
    return where, [part for pair in wanted.labels for part in pair]
