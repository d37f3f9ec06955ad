"""What the sizing rests on: the one place to change when a benchmark says something else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Costs of one worker process on one core; the sources are the tables of `benchmarks/README.md`.

    Attributes:
        skipped_cpu_seconds: CPU time of an event that is not sampled, whatever its size.
        skipped_cpu_seconds_per_kb: The same a KB of it: fetched, checked, copied, and read where labels
            decide.
        kept_cpu_seconds: CPU time of a sampled event in intake: checked, routed, written as a task.
        verdict_cpu_seconds: CPU time of a verdict: request, reply, check of every quotation, result.
        resident_bytes: Memory of a worker; does not grow with the traffic.
        task_bytes: A task record, where the event has 4 KB.
        result_bytes: A result record.
    """

    skipped_cpu_seconds: float
    skipped_cpu_seconds_per_kb: float
    kept_cpu_seconds: float
    verdict_cpu_seconds: float
    resident_bytes: float
    task_bytes: float
    result_bytes: float

    def skipped_event_cpu_seconds(self, event_bytes: float) -> float:
        """CPU time of an event of this size that is not sampled."""
        return self.skipped_cpu_seconds + self.skipped_cpu_seconds_per_kb * event_bytes / 1000


MEASURED = Figures(
    # Measured alone on two cores, 2026-11-21, each with 1% kept: 5.06 us at 1 KB by key, 15.0 us at 4 KB by
    # label. The bare client takes 3.5 us of the first, so a kept event costs about 0.15 ms. A line through
    # 4.1 and 14 us, and 0.2 ms: on the careful side by 1 us and more an event.
    skipped_cpu_seconds=0.8e-6,
    skipped_cpu_seconds_per_kb=3.3e-6,
    kept_cpu_seconds=0.2e-3,
    # 1.38 ms with a judge that answers at once; 2.2 with one of 1 s, where calls come one by one (benchmark
    # `scaling`).
    verdict_cpu_seconds=2.2e-3,
    resident_bytes=142 * 2**20,
    task_bytes=4_000,
    result_bytes=4_000,
)
