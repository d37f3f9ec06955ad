from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas import (
    Alert,
    Estimate,
    Evaluator,
    Failed,
    JudgeTask,
    Sampling,
    Scored,
    Source,
    Times,
    Unscored,
    result_id,
)

START = datetime(2025, 3, 14, 14, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def scored(number: int, score: int, *, justification: str = "Because.", **common: Any) -> Scored:
    verdict = {"score": score, "justification": justification}
    return Scored.model_validate({**_common(number, **common), "score": score, "verdict": verdict})


def numbered(number: int, value: float, **common: Any) -> Scored:
    found = {"score": round(value), "kind": "number", "value": value, "verdict": {"score": value}}
    return Scored.model_validate({**_common(number, **common), **found})


def unscored(number: int, **common: Any) -> Unscored:
    return Unscored.model_validate({**_common(number, **common), "reason": "no_claims"})


def failed(number: int, **common: Any) -> Failed:
    return Failed.model_validate(
        {**_common(number, **common), "error_type": "content_refused", "detail": "the filter said no"}
    )


def alert(alert_id: str, kind: str = "drop", seconds: float = 0, **fields: Any) -> Alert:
    """Return an alert of this many seconds after START."""
    estimate = Estimate(mean=4, low=3, high=5, count=10, effective_count=10)
    return Alert.model_validate(
        {
            "alert_id": alert_id, "kind": kind, "metric": "relevance", "fingerprint": "f", "model": "m",
            "summary": f"summary of {alert_id}", "baseline": estimate, "current": estimate, "statistic": 2,
            "threshold": 1, "detector": "d", "started_at": at(seconds), "raised_at": at(seconds),
        }
        | fields
    )  # fmt: skip


def task_of(result: Scored | Unscored | Failed, **texts: Any) -> JudgeTask:
    names = ("result_id", "event_id", "metric", "source", "labels", "sampling")
    common = {name: getattr(result, name) for name in names} | {"question": "Why?", "answer": "Because."}
    times = {"occurred_at": result.times.occurred_at, "sampled_at": START}
    return JudgeTask.model_validate(common | times | texts)


def _common(
    number: int,
    *,
    metric: str = "relevance",
    labels: Mapping[str, str] | None = None,
    fingerprint: str = "f1",
    probability: float = 1.0,
    stratum: str = "default",
    seconds: float | None = None,
    replay_id: str | None = None,
) -> dict[str, object]:
    """Return the fields of event `number`, answered `seconds` (by default `number` seconds) after START."""
    moment = at(number if seconds is None else seconds)
    event_id = f"e{number}"
    return {
        "result_id": result_id(topic="qa.events", event_id=event_id, metric=metric, replay_id=replay_id),
        "event_id": event_id,
        "replay_id": replay_id,
        "labels": dict(labels or {}),
        "metric": metric,
        "source": Source(topic="qa.events", partition=0, offset=number),
        "evaluator": Evaluator(
            fingerprint=fingerprint, prompt="p", schema_="s", scoring="v1", model="judge-1"
        ),
        "sampling": Sampling(probability=probability, stratum=stratum, policy="p"),
        "times": Times(occurred_at=moment, sampled_at=moment, judged_at=moment),
    }
