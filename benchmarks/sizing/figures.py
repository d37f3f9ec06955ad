"""Measured figures of the sizing; update them from the benchmarks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Costs of one worker process on one core; the sources are the tables of `benchmarks/README.md`.

    Attributes:
        skipped_cpu_seconds: CPU time of an event that is not sampled, independent of its size.
        skipped_cpu_seconds_per_kb: The same per KB: fetch, check, copy, and parse if labels decide.
        kept_cpu_seconds: CPU time of a sampled event in intake: validate, route, write the task.
        verdict_cpu_seconds: CPU time of a verdict: request, reply, verification, result.
        resident_bytes: Memory of a worker, independent of traffic.
        task_bytes: Size of a task record of a 4 KB event.
        result_bytes: Size of a result record.
    """

    skipped_cpu_seconds: float
    skipped_cpu_seconds_per_kb: float
    kept_cpu_seconds: float
    verdict_cpu_seconds: float
    resident_bytes: float
    task_bytes: float
    result_bytes: float

    def skipped_event_cpu_seconds(self, event_bytes: float) -> float:
        """Return the CPU time of an event of this size that is not sampled."""
        return self.skipped_cpu_seconds + self.skipped_cpu_seconds_per_kb * event_bytes / 1000


MEASURED = Figures(
    # Measured on two idle cores, 2026-11-21, with 1% kept: 5.06 us at 1 KB by key, 15.0 us at 4 KB by label.
    # The bare client takes 3.5 us at 1 KB, so a kept event costs about 0.15 ms. Used: a line through 4.1 and
    # 14 us, plus 0.2 ms per kept event, which is at least 1 us per event above the measurement.
    skipped_cpu_seconds=0.8e-6,
    skipped_cpu_seconds_per_kb=3.3e-6,
    kept_cpu_seconds=0.2e-3,
    # 1.38 ms with an instant judge; 2.2 ms with one of 1 s latency (benchmark `scaling`).
    verdict_cpu_seconds=2.2e-3,
    resident_bytes=142 * 2**20,
    task_bytes=4_000,
    result_bytes=4_000,
)
