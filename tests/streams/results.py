"""Results as the monitor takes them, each with what a test cares about."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas import Evaluator, Failed, Sampling, Scored, Source, Times, Unscored, result_id

START = datetime(2025, 3, 14, 14, 0, tzinfo=UTC)

_SOURCE = Source(topic="qa.events", partition=0, offset=0)


def at(seconds: float) -> datetime:
    """Give a moment this many seconds after the start."""
    return START + timedelta(seconds=seconds)


def scored(number: int, score: int, *, justification: str = "Because.", **common: Any) -> Scored:
    """Make the result of an answer that was judged; the rest as in `_common`."""
    verdict = {"score": score, "justification": justification}
    return Scored.model_validate({**_common(number, **common), "score": score, "verdict": verdict})


def numbered(number: int, value: float, **common: Any) -> Scored:
    """Make the result of an answer that was given a number between the whole ones."""
    found = {"score": round(value), "kind": "number", "value": value, "verdict": {"score": value}}
    return Scored.model_validate({**_common(number, **common), **found})


def unscored(number: int, **common: Any) -> Unscored:
    """Make the result of an answer without claims."""
    return Unscored.model_validate({**_common(number, **common), "reason": "no_claims"})


def failed(number: int, **common: Any) -> Failed:
    """Make the result of a judgement that went wrong."""
    return Failed.model_validate(
        {**_common(number, **common), "error_type": "content_refused", "detail": "the filter said no"}
    )


def _common(
    number: int,
    *,
    metric: str = "relevance",
    labels: Mapping[str, str] | None = None,
    fingerprint: str = "f1",
    probability: float = 1.0,
    seconds: float | None = None,
    replay_id: str | None = None,
) -> dict[str, object]:
    """Describe event number `number`, which was answered `seconds` (or else `number` seconds) after the
    start.
    """
    moment = at(number if seconds is None else seconds)
    event_id = f"e{number}"
    return {
        "result_id": result_id(topic="qa.events", event_id=event_id, metric=metric, replay_id=replay_id),
        "event_id": event_id,
        "replay_id": replay_id,
        "labels": dict(labels or {}),
        "metric": metric,
        "source": _SOURCE,
        "evaluator": Evaluator(
            fingerprint=fingerprint, prompt="p", schema_="s", scoring="v1", model="judge-1"
        ),
        "sampling": Sampling(probability=probability, stratum="default", policy="p"),
        "times": Times(occurred_at=moment, sampled_at=moment, judged_at=moment),
    }
