"""Settings that no longer exist: the reason, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

REMOVED: Final[Mapping[str, str]] = {
    "kafka.client_rack": "fetches go to the leader; place workers near it, or compress the topic",
    "kafka.heartbeat_interval_seconds": "it is a thirtieth of session_timeout_seconds; set that",
    "kafka.rebalance_timeout_seconds": "it follows from judge.timeout_seconds and "
    "kafka.session_timeout_seconds; set these",
    "kafka.commit_interval_seconds": "offsets are committed every 0.5 s; remove it",
    "kafka.group_instance_id": "workers are dynamic members; a restart costs one rebalance, during which the "
    "others go on; remove it",
    "kafka.metadata_age_seconds": "added partitions are read within 30 s; remove it",
    "kafka.producer_timeout_seconds": "a produce request may take 40 s; remove it",
    "kafka.resume_at": "a shortened log is resumed at the committed offset if that exists; to judge it from "
    "its beginning, use judgestream replay",
    "topics.create_retention_hours": "created topics have the retention in docs/deploy.md; change it with "
    "kafka-configs, or create the topics yourself",
    "dead_letters.limit.ratio_over_records": "the share is taken over 1,000 records; remove it",
    "metrics.*.python.inputs": "a function gets all texts; remove it",
    "metrics.*.mode": "a metric lists evidence, or has a prompt pack whose judge scores; remove it; a short "
    "pack is printed by `judgestream config prompts NAME --as-pack`",
    "metrics.*.verification": "there is one: proven errors lower a score, suspicions only mark it; remove it "
    "and watch `judgestream_verdict_suspicions_total`",
    "metrics.*.panel.quorum": "more than half of the votes must be verdicts; remove it",
    "monitor.max_series": "200 series are kept in memory, the busiest ones; remove it, or name fewer labels",
    "monitor.window_seconds": "the live page shows an hour; use the dashboards for other windows",
    "telemetry.max_label_values": "a label has 20 values in metrics; remove it, or name fewer labels",
    "sinks.*.batch": "a request carries at most 100 verdicts; remove it",
    "sinks.*.linger_seconds": "verdicts are collected for 0.5 s; remove it",
    "sinks.*.timeout_seconds": "a request may take 10 s; remove it",
    "judge.hedge_after_seconds": "a repeated call may be billed twice; lower judge.timeout_seconds or name a "
    "second endpoint",
    "judge.endpoints.*.timeout_seconds": "all endpoints have one time limit; set judge.timeout_seconds",
    "judge.event_loop": "workers run on asyncio; uvloop was not faster; remove it",
    "judge.retry": "pauses double from 0.5 s to 30 s, with jitter; remove it",
    "judge.breaker": "ten consecutive failures open it, and it probes every 5 s at most; remove it",
    "judge.repair_attempts": "an invalid reply is repaired twice at most; remove it",
    "judge.max_question_chars": "a question has 50,000 characters at most; shorten longer ones",
    "judge.max_answer_chars": "an answer has 50,000 characters at most; shorten longer ones",
    "judge.max_context_chars": "reference and cited pages have 1,000,000 characters at most; send less",
    "judge.verification_seconds": "checking an event's texts may take 10 s; remove it",
    "judge.budget.usd_per_hour": "a limit holds for a day; set usd_per_day",
    "judge.budget.calls_per_hour": "a limit holds for a day; set calls_per_day, or requests_per_minute of an "
    "endpoint",
    "ingest.otlp.grace_seconds": "a trace is closed 5 s after its root span; remove it",
    "ingest.otlp.idle_seconds": "set ingest.idle_seconds",
    "ingest.otlp.max_seconds": "a trace is closed at twelve times ingest.idle_seconds; set that",
    "ingest.otlp.max_traces": "open traces are limited by their bytes; set ingest.max_open_bytes",
    "ingest.otlp.max_bytes": "set ingest.max_open_bytes",
    "ingest.conversations": "set ingest.idle_seconds, of which twelve times is the maximum age, and "
    "ingest.max_open_bytes",
    "monitor.min_share_rise": "it is a fifth of min_drop, as a share's scale is one wide; set that",
}
"""Reason and remedy by path; `*` stands for any one part. A path covers what is below it."""


def removal(path: Sequence[str | int]) -> str | None:
    """Return the reason and remedy of the removed setting at a path or above it; None if there is none."""
    for length in range(len(path), 0, -1):
        for pattern, reason in REMOVED.items():
            parts = pattern.split(".")
            if len(parts) == length and all(
                part in ("*", str(given)) for part, given in zip(parts, path[:length], strict=True)
            ):
                return reason
    return None
