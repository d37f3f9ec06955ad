"""The catalogue of a worker's metrics: tests check dashboards, rules and documentation against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

LABELS: Final = "<labels>"
"""Placeholder for the event labels that the settings name."""

MetricType = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Spec:
    name: str
    type: MetricType
    unit: str
    """The unit, or the things counted."""
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

_SLICE: Final = ("metric", "fingerprint", "slice")


def _counter(name: str, unit: str, text: str, *labels: str) -> Spec:
    return Spec(name, "counter", unit, text, labels)


def _gauge(name: str, unit: str, text: str, *labels: str) -> Spec:
    return Spec(name, "gauge", unit, text, labels)


def _histogram(name: str, buckets: tuple[float, ...], unit: str, text: str, *labels: str) -> Spec:
    return Spec(name, "histogram", unit, text, labels, buckets)


CATALOGUE: Final[tuple[Spec, ...]] = (
    _counter("judgestream_events_total", "events", "Events read, by outcome.", "outcome", "reason"),
    _counter("judgestream_results_total", "results",
        "Results written.", "metric", "status", "reason", LABELS),
    _counter("judgestream_scores_total", "results",
        "Scored results, by score, label, or tenth of the scale.", "metric", "score", LABELS),
    *(
        _counter(f"judgestream_score_{name}_total", "1", text, "metric", "fingerprint", LABELS)
        for name, text in SUMS.items()
    ),
    _histogram("judgestream_judge_call_seconds", _CALL_BUCKETS, "seconds",
        "Wall-clock time of judge calls.", "endpoint", "model", "outcome"),
    _counter("judgestream_judge_tokens_total", "tokens",
        "Tokens, as the endpoint counts them.", "endpoint", "model", "kind"),
    _counter("judgestream_judge_cost_usd_total", "US dollars",
        "Cost of judging, if prices are known.", "endpoint", "model"),
    _counter("judgestream_result_cost_usd_total", "US dollars",
        "Cost of the written results, if prices are known.", "metric", LABELS),
    _gauge("judgestream_judge_in_flight", "calls", "Judge calls in flight.", "endpoint"),
    _gauge("judgestream_judge_batch_requests", "requests",
        "Requests that wait for a batch or for its replies.", "endpoint"),
    _gauge("judgestream_judge_breaker_open", "1", "1 while the breaker is open.", "endpoint"),
    _counter("judgestream_judge_endpoint_failures_total", "calls",
        "Tries that an endpoint failed although the event was judged later.", "endpoint"),
    _counter("judgestream_judge_model_changes_total", "changes",
        "Models that answered for the first time at an endpoint where another one had answered.", "endpoint"),
    _gauge("judgestream_judge_timeout_seconds", "seconds",
        "Time limit of a judge call (judge.timeout_seconds)."),
    _gauge(
        "judgestream_judge_budget_spent_ratio", "1",
        "Share of the workers' common judging budget that is spent, the same at each worker, for the limit "
        "nearest to exhaustion; only with a budget.",
        "period", "cap",
    ),
    _gauge("judgestream_judge_budget_left_seconds", "seconds",
        "Time until a limit of the budget is spent at the rate of the last half hour; +Inf if not today.",
        "cap"),
    _gauge("judgestream_sampling_rate", "1",
        "Sampling rate in force of a stratum (sampling rule), the same at each worker; only with "
        "sampling.budget.",
        "stratum"),
    _counter("judgestream_verdict_corrections_total", "corrections",
        "Corrections by code of the judge's claims.", "metric", "kind"),
    _counter("judgestream_verdict_suspicions_total", "verdicts",
        "Verdicts with a suspicion, by kind: claims that code finds implausible but cannot disprove.",
        "metric", "kind"),
    _histogram("judgestream_panel_disagreement_ratio", _SHARE_BUCKETS, "ratio",
        "Distance of a panel's votes from its result: 0 for none, 1 for the whole scale.", "metric"),
    _histogram("judgestream_event_to_result_seconds", _WAIT_BUCKETS, "seconds",
        "Time from the event to its result.", "metric"),
    _gauge("judgestream_consumer_lag_records", "records",
        "Unfinished records, up to the partition's end; not told while they may wait for a batch.",
        "topic", "partition"),
    _gauge("judgestream_consumer_finished_records", "records",
        "Offsets of the partition that are read and no longer in flight: stands still if nothing is done.",
        "topic", "partition"),
    _gauge("judgestream_oldest_unfinished_seconds", "seconds",
        "Age of the oldest record in flight, beyond its time to wait for a batch; 0 if there is none.",
        "topic", "partition"),
    _gauge("judgestream_joins_open", "groups",
        "Traces or conversations whose records are being joined.", "unit"),
    _counter("judgestream_joins_closed_total", "groups",
        "Traces or conversations closed, by reason: root (traces), idle, longest, room.", "unit", "reason"),
    _gauge("judgestream_joins_late_records", "records",
        "Records received after their trace or conversation was closed, since the start.", "unit"),
    _counter("judgestream_traces_without_content_total", "traces",
        "Traces with model calls but without recorded content, by instrumentation.", "instrumentation"),
    _counter("judgestream_sink_verdicts_total", "verdicts",
        "Verdicts handed to a sink, by outcome: delivered, skipped, refused.", "sink", "outcome"),
    _counter("judgestream_dead_letters_total", "records", "Dead letters written.", "reason"),
    _counter("judgestream_lost_records_total", "records",
        "Records that retention removed before they were read.", "topic"),
    _counter("judgestream_offset_moves_total", "moves",
        "Partitions that resumed at another offset because the next one was out of range.", "topic", "why"),
    *(
        _gauge(f"judgestream_monitor_{name}", unit, text, *_SLICE, "measure")
        for name, unit, text in MONITOR_GAUGES
    ),
    *(
        _gauge(f"judgestream_monitor_window_{name}", "points", text, *_SLICE)
        for name, text in (
            ("mean", "Mean of the answers in the monitor's window, estimated by sampling stratum."),
            ("low", "Lower end of its 95% interval, which counts clusters of dependent answers once."),
            ("high", "Upper end of that interval."),
        )
    ),
    _gauge("judgestream_monitor_missing_strata", "strata",
        "Sampling rules that had answers in the past week and none in the window.", *_SLICE),
    *(
        _gauge(f"judgestream_monitor_anchors_{name}", unit, text, "metric", "fingerprint")
        for name, unit, text in (
            ("mean", "points", "Mean difference of the anchors' new scores from their first ones."),
            ("low", "points", "Lower end of its 95% interval."),
            ("high", "points", "Upper end of that interval."),
            ("calls", "calls", "Anchors judged again and scored, since the last enrolment."),
            ("shifted", "1", "Shift of the judge on its anchors: -1 stricter, 0 none, 1 kinder."),
        )
    ),
    _gauge("judgestream_monitor_two_phase_correlation", "1",
        "Correlation of the cheap judge's scores with the strong one's.", "metric", "fingerprint"),
    _gauge("judgestream_monitor_judge_names", "names",
        "Names, of model and provider's build, under which a judge has answered; each new one is tried.",
        "metric", "fingerprint"),
    *(
        _gauge(f"judgestream_people_{name}", "points", text, "metric", "fingerprint")
        for name, text in (
            ("mean", "Mean that people would give, estimated from their labels (judgestream calibrate)."),
            ("low", "Lower end of its 95% interval."),
            ("high", "Upper end of that interval."),
            ("judge", "What the judge gives on average, by the same answers."),
        )
    ),
    *(
        _gauge(f"judgestream_release_{name}", unit, text, "metric", "label", "old", "new")
        for name, unit, text in (
            ("answer", "1", "A release gate asked for in the past hour: -1 worse, 0 not yet, 1 no worse."),
            ("low", "points", "By how much the new value's mean is better: lower end of the interval."),
            ("high", "points", "Upper end of that interval."),
        )
    ),
    _gauge(
        "judgestream_monitor_state_problems", "problems",
        "Problems of the monitor's saved state since the start: ahead (of the observations), incomplete (a "
        "partition learned again), too_large.",
        "reason",
    ),
    _counter(
        "judgestream_objective_weight_total", "1",
        "Sum of w = 1 / inclusion probability over scored results of a metric with an objective, by whether "
        "they meet it.",
        "metric", "fingerprint", "met",
    ),
    _counter("judgestream_objective_results_total", "results",
        "Scored results of a metric with an objective, by whether they meet it.",
        "metric", "fingerprint", "met"),
    _gauge("judgestream_objective_share", "1",
        "Share of the answers that must meet the objective.", "metric"),
    _gauge("judgestream_score_range", "points", "Ends of a metric's scale.", "metric", "end"),
    _gauge("judgestream_evaluator_info", "1",
        "1 for each evaluator in use.", "metric", "fingerprint", "model"),
    _gauge("judgestream_worker_info", "1",
        "1 for each agent that the worker runs.", "agent", "version"),
    _gauge("judgestream_deprecated_settings", "settings",
        "Settings that were given by an old name, which the next minor version refuses."),
)  # fmt: skip

PROCESS: Final = (
    _counter("process_cpu_seconds_total", "seconds", "CPU time of the worker's process; at most one core."),
    _gauge("process_resident_memory_bytes", "bytes", "Memory of the worker's process."),
    _gauge("process_start_time_seconds", "seconds since 1970",
        "Start of the worker's process; a change is a restart."),
)  # fmt: skip
"""What rules and dashboards use of the client library's own metrics; Linux only."""
