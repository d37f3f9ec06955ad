"""Parses a human label of a verdict: a number, true or false, or a metric's label. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schemas import Label, ResultKind, Selection, label_id


@dataclass(frozen=True, slots=True)
class Scales:
    """The scales of the settings' metrics.

    Args:
        ranges: Lowest and highest score by metric.
        labels: The number of each label, or of `true` and `false`, by metric; empty for numeric scores.
    """

    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """A human label.

    Args:
        score: See `Label.score`.
        kind: See `Label.kind`.
        value: See `Label.value`.
    """

    score: int | None
    kind: ResultKind
    value: bool | float | str | None = None


def read_said(found: Mapping[str, Any], given: Any, scales: Scales) -> Said:
    """Parse a human label of a verdict.

    Args:
        found: The verdict, from `streams.store.verdicts.one`.
        given: The person's choice; text is parsed. None or "": cannot say.
        scales: The metrics' scales.

    Raises:
        ValueError: It is not a score of the metric.
    """
    metric = found["metric"]
    labels = scales.labels.get(metric) or {}
    kind: ResultKind = found["result"].get("kind") or _kind_of(labels)
    if given is None or (isinstance(given, str) and not given.strip()):
        return Said(None, kind)
    if kind == "boolean":
        return _boolean(found, given, labels)
    if kind == "label":
        if given not in labels:
            known = ", ".join(labels) or "unknown: name the settings with --config"
            raise ValueError(f"score must be a label of {metric} ({known}), got {str(given)[:60]!r}")
        return Said(labels[given], kind, str(given))
    number = math.nan if isinstance(given, bool) else float(given)
    low, high = scales.ranges.get(metric, (-math.inf, math.inf))
    if not (math.isfinite(number) and low <= number <= high):
        raise ValueError(f"score must be {low:g} to {high:g} for {metric}, got {given}")
    whole = math.floor(number + 0.5)
    if kind == "number":
        return Said(whole, kind, number)
    if whole != number:
        raise ValueError(f"score must be a whole number, or empty, got {given}")
    return Said(whole, kind)


def _kind_of(labels: Mapping[str, int]) -> ResultKind:
    if not labels:
        return "integer"
    return "boolean" if labels.keys() == {"true", "false"} else "label"


def _boolean(found: Mapping[str, Any], given: Any, labels: Mapping[str, int]) -> Said:
    written = str(given).strip().lower()
    if written not in ("true", "false"):
        raise ValueError(f"score must be true or false for {found['metric']}, got {str(given)[:60]!r}")
    value = written == "true"
    number = labels.get(written)
    if number is None:  # the metric is not in the settings; use the verdict
        same = found["result"].get("value") is value
        number = round(found["score"]) if same else 1 - round(found["score"])
    return Said(number, "boolean", value)


def label_of(
    found: Mapping[str, Any],
    said: Said,
    *,
    who: str,
    moment: str,
    at: datetime,
    note: str,
    selection: Selection,
) -> Label:
    """Build the label of a verdict.

    Args:
        found: The verdict, from `streams.store.verdicts.one`.
        said: The human label.
        who: The labeller.
        moment: The time as text; part of the label's id.
        at: The same time.
        note: The labeller's note.
        selection: How the verdict was selected.
    """
    return Label(
        label_id=label_id(result_id=found["result_id"], who=who, labelled_at=moment),
        result_id=found["result_id"],
        event_id=found["event_id"],
        metric=found["metric"],
        score=said.score,
        kind=said.kind,
        value=said.value,
        judge_score=None if found["score"] is None else math.floor(found["score"] + 0.5),
        judge_value=found["result"].get("value"),
        fingerprint=found["result"]["evaluator"]["fingerprint"],
        note=note,
        who=who,
        labelled_at=at,
        selection=selection,
    )
