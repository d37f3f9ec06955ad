"""One flat row per verdict, the same in every format. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

COLUMNS: Final[Mapping[str, str]] = {
    "result_id": "VARCHAR",
    "event_id": "VARCHAR",
    "replay_id": "VARCHAR",
    "metric": "VARCHAR",
    "status": "VARCHAR",
    "score": "DOUBLE",
    "score_label": "VARCHAR",
    "score_exact": "VARCHAR",
    "reason": "VARCHAR",
    "occurred_at": "TIMESTAMP",
    "judged_at": "TIMESTAMP",
    "probability": "DOUBLE",
    "stratum": "VARCHAR",
    "policy": "VARCHAR",
    "fingerprint": "VARCHAR",
    "model": "VARCHAR",
    "model_answered": "VARCHAR",
    "endpoint": "VARCHAR",
    "input_tokens": "BIGINT",
    "cached_tokens": "BIGINT",
    "output_tokens": "BIGINT",
    "cost_usd": "DOUBLE",
    "judge_seconds": "DOUBLE",
    "labels": "VARCHAR",
    "verdict": "VARCHAR",
    "corrections": "VARCHAR",
    "suspicions": "VARCHAR",
    "source_topic": "VARCHAR",
    "source_partition": "INTEGER",
    "source_offset": "BIGINT",
    "human_score": "DOUBLE",
    "human_label": "VARCHAR",
    "human_who": "VARCHAR",
    "human_note": "VARCHAR",
    "human_probability": "DOUBLE",
    "human_labels": "INTEGER",
    "day": "DATE",
}
"""Names and DuckDB's types; labels and verdict are JSON texts.
Kinds of corrections and suspicions are separated by spaces; times are UTC; the human columns are the latest
label and the number of labellers."""


def flat(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verdict's row.

    Args:
        verdict: A verdict from `streams.store.verdicts.every`.
    """
    result, people = verdict["result"], verdict["people"]
    evaluator, judge, times = result["evaluator"], result.get("judge") or {}, result["times"]
    usage, source, sampling = result.get("usage") or {}, result["source"], result["sampling"]
    latest = max(people, key=lambda one: one["labelled_at"]) if people else {}
    occurred = _moment(times["occurred_at"])
    return {
        "result_id": verdict["result_id"],
        "event_id": result["event_id"],
        "replay_id": result.get("replay_id"),
        "metric": result["metric"],
        "status": result["status"],
        "score": verdict["score"],
        "score_label": _label(result.get("value")),
        "score_exact": result.get("score_exact"),
        "reason": result.get("reason") or result.get("error_type"),
        "occurred_at": _utc(occurred),
        "judged_at": _utc(_moment(times["judged_at"])),
        "probability": sampling["probability"],
        "stratum": sampling["stratum"],
        "policy": sampling["policy"],
        "fingerprint": evaluator["fingerprint"],
        "model": evaluator["model"],
        "model_answered": judge.get("model_answered"),
        "endpoint": judge.get("endpoint"),
        "input_tokens": usage.get("input_tokens"),
        "cached_tokens": usage.get("cached_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cost_usd": result.get("cost_usd"),
        "judge_seconds": times.get("judge_seconds"),
        "labels": orjson.dumps(result.get("labels") or {}).decode(),
        "verdict": None if result.get("verdict") is None else orjson.dumps(result["verdict"]).decode(),
        "corrections": _kinds(result.get("corrections")),
        "suspicions": _kinds(result.get("suspicions")),
        "source_topic": source["topic"],
        "source_partition": source["partition"],
        "source_offset": source["offset"],
        "human_score": _number(latest),
        "human_label": _label(latest.get("value")),
        "human_who": latest.get("who"),
        "human_note": latest.get("note"),
        "human_probability": (latest.get("selection") or {}).get("probability"),
        "human_labels": len(people),
        "day": _utc(occurred)[:10],
    }


def _number(label: Mapping[str, Any]) -> float | None:
    """Return a human label as a number, also of a boolean or a label."""
    value, score = label.get("value"), label.get("score")
    return value if isinstance(value, float) else score


def _label(value: Any) -> str | None:
    """Return the boolean or the label; empty for numbers."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else None


def _kinds(marks: Any) -> str:
    return " ".join(sorted({one["kind"] for one in marks or ()}))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
