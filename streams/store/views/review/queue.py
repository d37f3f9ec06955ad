"""Selects verdicts to review: a random sample, doubtful ones, or an incident's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from schemas import Selection
from streams.errors import BadFilterError
from streams.store import sums
from streams.store.filters import ANY, Filter, selected
from streams.store.reader import Asking
from streams.store.views.incidents.grouping import find
from streams.store.views.incidents.report import known_incidents
from streams.store.words import matching

Kind = Literal["random", "doubt", "incident"]
KINDS: Final = ("random", "doubt", "incident")
MAX_SIZE: Final = 500


@dataclass(frozen=True, slots=True)
class Task:
    """A verdict to review, with the reason."""

    result_id: str
    selection: Selection


def choose(
    asking: Asking, wanted: Filter, *, kind: str, size: int, start: bytes, incident_id: str | None = None
) -> list[Task]:
    """Select verdicts to review.

    A result's id is a hash and independent of its score. So verdicts in order of their ids from a random
    start are a random sample of all matching ones, each with probability size / all.

    Args:
        asking: The store.
        wanted: The filter; only scored verdicts are selected.
        kind: One of `KINDS`.
        size: Number of verdicts, 1 to `MAX_SIZE`.
        start: 16 random bytes: the id to start at.
        incident_id: The incident, for the kind "incident".

    Raises:
        BadFilterError: The kind or the incident is unknown, or the size is out of range.
    """
    if kind not in KINDS:
        raise BadFilterError(f"kind must be one of {', '.join(KINDS)}, got {kind[:40]!r}")
    if not 1 <= size <= MAX_SIZE:
        raise BadFilterError(f"size must be 1 to {MAX_SIZE}, got {size}")
    wanted = replace(wanted, status="scored")
    if kind == "random":
        return _random(asking, wanted, size, start)
    if kind == "doubt":
        return _doubtful(asking, wanted, size)
    return _of_incident(asking, wanted, size, incident_id)


def _random(asking: Asking, wanted: Filter, size: int, start: bytes) -> list[Task]:
    number = sums.count(asking, wanted)
    if not number:
        return []
    where, parameters = selected(wanted, matching(asking, wanted.words))
    ids: list[str] = []
    for comparison in (">=", "<"):  # wrap around to the start
        ids += [
            row[0].lower()
            for row in asking.rows(
                (
                    f"SELECT hex(result_id) FROM verdicts WHERE {where} AND result_id {comparison} ? "
                    "ORDER BY result_id LIMIT ?"
                ),
                (*parameters, start, size - len(ids)),
            )
        ]
    selection = Selection(kind="random", probability=min(len(ids) / number, 1.0))
    return [Task(one, selection) for one in ids]


def _doubtful(asking: Asking, wanted: Filter, size: int) -> list[Task]:
    """Return verdicts with suspicions or corrections, then alternately the lowest and highest scores."""
    lists = [
        _ids(asking, replace(wanted, suspicion=ANY), "at DESC", size),
        _ids(asking, replace(wanted, correction=ANY), "at DESC", size),
    ]
    low, high = (
        _ids(asking, wanted, "score ASC, at DESC", size),
        _ids(asking, wanted, "score DESC, at ASC", size),
    )
    ends = [one for pair in zip(low, high, strict=True) for one in pair]
    # At least half are extremes, so that verdicts without doubts are reviewed, too.
    doubted = list(dict.fromkeys(one for some in lists for one in some))[: max(size // 2, 1)]
    return _tasks([*doubted, *ends], "doubt", size)


def _of_incident(asking: Asking, wanted: Filter, size: int, incident_id: str | None) -> list[Task]:
    found = find(known_incidents(asking), incident_id or "")
    if found is None:
        raise BadFilterError(
            f"incident must be in the store, got {(incident_id or '')[:40]!r}; see judgestream incident"
        )
    since = round(found.started_at.timestamp() * 1000)
    return _tasks(_ids(asking, replace(wanted, since=since), "score ASC, at DESC", size), "incident", size)


def _ids(asking: Asking, wanted: Filter, order: str, size: int) -> list[str]:
    where, parameters = selected(wanted, matching(asking, wanted.words))
    rows = asking.rows(
        f"SELECT hex(result_id) FROM verdicts WHERE {where} ORDER BY {order} LIMIT ?", (*parameters, size)
    )
    return [row[0].lower() for row in rows]


def _tasks(ids: Sequence[str], kind: Literal["doubt", "incident"], size: int) -> list[Task]:
    return [Task(one, Selection(kind=kind)) for one in list(dict.fromkeys(ids))[:size]]
