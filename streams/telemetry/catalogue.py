"""The catalogue of a worker's metrics: tests check dashboards, rules and documentation against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

LABELS: Final = "<labels>"
"""Placeholder for the event labels that the settings name."""

MetricType = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Spec:
    """One entry of the catalogue.

    Args:
        unit: The unit, or the things counted.
    """

    name: str
    type: MetricType
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_CALL_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
_SHARE_BUCKETS: Final = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0)
_WAIT_BUCKETS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)

SUMS: Final = {
    "weight": "Sum of w = 1 / inclusion probability over scored results.",
    "weighted": "Sum of w * score.",
    "weighted_square": "Sum of w * score^2.",
    "weight_square": "Sum of w^2.",
    "weight_square_score": "Sum of w^2 * score.",
    "weight_square_score_square": "Sum of w^2 * score^2.",
}
"""The six sums for a weighted mean and its confidence interval, over any window."""

MONITOR_GAUGES: Final = (
    ("state", "1", "State of a series' measure: 0 learning, 1 watching, 2 dropped."),
    ("evidence", "1", "Evidence for a drop; while dropped, the evidence at the alert."),
    ("threshold", "1", "Threshold of the evidence for a drop."),
    ("baseline", "points or share", "The baseline."),
    ("tolerated", "points or share", "The worst tolerated level, not adjusted for season and mix."),
)
"""Gauges of each measure, exposed by the worker that owns the series."""

CATALOGUE: Final[tuple[Spec, ...]] = (
    Spec(
        "judgestream_events_total", "counter", "events", "Events read, by outcome.",
        ("outcome", "reason"),
    ),
    Spec(
        "judgestream_results_total", "counter", "results", "Results written.",
        ("metric", "status", "reason", LABELS),
    ),
    Spec(
        "judgestream_scores_total", "counter", "results",
        "Scored results, by score, label, or tenth of the scale.",
        ("metric", "score", LABELS),
    ),
    *(
        Spec(f"judgestream_score_{name}_total", "counter", "1", text, ("metric", "fingerprint", LABELS))
        for name, text in SUMS.items()
    ),
    Spec(
        "judgestream_judge_call_seconds", "histogram", "seconds", "Wall-clock time of judge calls.",
        ("endpoint", "model", "outcome"), _CALL_BUCKETS,
    ),
    Spec(
        "judgestream_judge_tokens_total", "counter", "tokens", "Tokens, as the endpoint counts them.",
        ("endpoint", "model", "kind"),
    ),
    Spec(
        "judgestream_judge_cost_usd_total", "counter", "US dollars",
        "Cost of judging, if prices are known.",
        ("endpoint", "model"),
    ),
    Spec("judgestream_judge_in_flight", "gauge", "calls", "Judge calls in flight.", ("endpoint",)),
    Spec(
        "judgestream_judge_breaker_open", "gauge", "1", "1 while the breaker is open.",
        ("endpoint",),
    ),
    Spec(
        "judgestream_judge_endpoint_failures_total", "counter", "calls",
        "Tries that an endpoint failed although the event was judged later.",
        ("endpoint",),
    ),
    Spec(
        "judgestream_judge_model_changes_total", "counter", "changes",
        "Models that answered for the first time at an endpoint where another one had answered.",
        ("endpoint",),
    ),
    Spec(
        "judgestream_judge_budget_spent_ratio", "gauge", "1",
        "Share of this worker's judging budget that is spent, for the limit nearest to exhaustion; only "
        "with a budget.",
        ("period",),
    ),
    Spec(
        "judgestream_verdict_cache_failures_total", "counter", "accesses",
        "Verdicts that could not be read from or written to the cache.",
    ),
    Spec(
        "judgestream_verdict_corrections_total", "counter", "corrections",
        "Corrections by code of the judge's claims.",
        ("metric", "kind"),
    ),
    Spec(
        "judgestream_verdict_suspicions_total", "counter", "verdicts",
        "Verdicts with a suspicion, by kind: claims that code finds implausible but cannot disprove.",
        ("metric", "kind"),
    ),
    Spec(
        "judgestream_panel_disagreement_ratio", "histogram", "ratio",
        "Distance of a panel's votes from its result: 0 for none, 1 for the whole scale.",
        ("metric",), _SHARE_BUCKETS,
    ),
    Spec(
        "judgestream_event_to_result_seconds", "histogram", "seconds",
        "Time from the event to its result.",
        ("metric",), _WAIT_BUCKETS,
    ),
    Spec(
        "judgestream_consumer_lag_records", "gauge", "records",
        "Unfinished records, up to the partition's end.",
        ("topic", "partition"),
    ),
    Spec(
        "judgestream_oldest_unfinished_seconds", "gauge", "seconds",
        "Age of the oldest record in flight; 0 if there is none.",
        ("topic", "partition"),
    ),
    Spec(
        "judgestream_joins_open", "gauge", "groups",
        "Traces or conversations whose records are being joined.",
        ("unit",),
    ),
    Spec(
        "judgestream_joins_closed_total", "counter", "groups",
        "Traces or conversations closed, by reason: root (traces), idle, longest, room.",
        ("unit", "reason"),
    ),
    Spec(
        "judgestream_joins_late_records", "gauge", "records",
        "Records received after their trace or conversation was closed, since the start.",
        ("unit",),
    ),
    Spec(
        "judgestream_traces_without_content_total", "counter", "traces",
        "Traces with model calls but without recorded content, by instrumentation.",
        ("instrumentation",),
    ),
    Spec(
        "judgestream_sink_verdicts_total", "counter", "verdicts",
        "Verdicts handed to a sink, by outcome: delivered, skipped, refused.",
        ("sink", "outcome"),
    ),
    Spec("judgestream_dead_letters_total", "counter", "records", "Dead letters written.", ("reason",)),
    Spec(
        "judgestream_dead_letters_skipped_total", "counter", "records",
        "Records skipped because even their smallest dead letter is too large (dead_letters.when_refused: "
        "skip).",
        ("reason",),
    ),
    Spec(
        "judgestream_lost_records_total", "counter", "records",
        "Records that retention removed before they were read.",
        ("topic",),
    ),
    Spec(
        "judgestream_offset_moves_total", "counter", "moves",
        "Partitions that resumed at another offset because the next one was out of range.",
        ("topic", "why"),
    ),
    Spec(
        "judgestream_results_repeated_total", "counter", "results",
        "Results repeated after a redelivery; no other metric counts them.",
        ("metric",),
    ),
    *(
        Spec(
            f"judgestream_monitor_{name}", "gauge", unit, text,
            ("metric", "fingerprint", "slice", "measure"),
        )
        for name, unit, text in MONITOR_GAUGES
    ),
    *(
        Spec(
            f"judgestream_monitor_window_{name}", "gauge", "points", text, ("metric", "fingerprint", "slice")
        )
        for name, text in (
            ("mean", "Mean of the answers in the monitor's window, estimated by sampling stratum."),
            ("low", "Lower end of its 95% interval, which counts clusters of dependent answers once."),
            ("high", "Upper end of that interval."),
        )
    ),
    Spec(
        "judgestream_monitor_missing_strata", "gauge", "strata",
        "Sampling rules that had answers in the past week and none in the window.",
        ("metric", "fingerprint", "slice"),
    ),
    Spec(
        "judgestream_monitor_state_problems", "gauge", "problems",
        "Problems of the monitor's saved state since the start: ahead (of the observations), incomplete "
        "(a partition learned again), too_large.",
        ("reason",),
    ),
    Spec(
        "judgestream_objective_weight_total", "counter", "1",
        "Sum of w = 1 / inclusion probability over scored results of a metric with an objective, by whether "
        "they meet it.",
        ("metric", "fingerprint", "met"),
    ),
    Spec(
        "judgestream_objective_results_total", "counter", "results",
        "Scored results of a metric with an objective, by whether they meet it.",
        ("metric", "fingerprint", "met"),
    ),
    Spec(
        "judgestream_objective_share", "gauge", "1", "Share of the answers that must meet the objective.",
        ("metric",),
    ),
    Spec("judgestream_score_range", "gauge", "points", "Ends of a metric's scale.", ("metric", "end")),
    Spec(
        "judgestream_evaluator_info", "gauge", "1", "1 for each evaluator in use.",
        ("metric", "fingerprint", "model"),
    ),
)  # fmt: skip
