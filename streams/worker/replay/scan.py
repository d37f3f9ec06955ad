"""Count the tasks of a time range. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappush, heapreplace
from typing import Final

from schemas import JudgeTask
from streams.intake.tasks import texts_chars
from streams.worker.replay.estimate import Lengths, Sampled
from streams.worker.replay.selection import Tally

SAMPLE: Final = 40
"""Minimum samples per metric for an estimate, if there are as many."""


@dataclass(slots=True)
class Scan:
    """The tasks of a time range.

    Args:
        tally: Outcomes of the records.
        tasks: All tasks, by metric.
        left: Those without a result.
        samples: Effort of tasks that were judged before.
        pilots: A random sample of the tasks without a result, by metric: a heap by result id.
    """

    tally: Tally = field(default_factory=Tally)
    tasks: dict[str, Lengths] = field(default_factory=dict)
    left: dict[str, Lengths] = field(default_factory=dict)
    samples: dict[str, list[Sampled]] = field(default_factory=dict)
    pilots: dict[str, list[tuple[int, JudgeTask]]] = field(default_factory=dict)

    def add(self, task: JudgeTask, took: Sampled | None, *, done: bool) -> None:
        """Count a task.

        Args:
            task: The task.
            took: Effort of judging it before; None if unknown.
            done: Whether it has a result.
        """
        chars = texts_chars(task)
        self.tasks.setdefault(task.metric, Lengths()).add(chars)
        self.add_sample(task, took)
        if done:
            return
        self.left.setdefault(task.metric, Lengths()).add(chars)
        heap = self.pilots.setdefault(task.metric, [])
        entry = (-int(task.result_id, 16), task)  # a hash: the smallest ids are a random sample
        if len(heap) < SAMPLE:
            heappush(heap, entry)
        elif entry[0] > heap[0][0]:
            heapreplace(heap, entry)

    def add_sample(self, task: JudgeTask, took: Sampled | None) -> None:
        """Add the effort of a task to the samples."""
        if took is not None:
            self.samples.setdefault(task.metric, []).append(replace(took, chars=texts_chars(task)))

    def wanted(self) -> list[JudgeTask]:
        """Return the tasks to judge first, of metrics with too few samples."""
        return [
            task
            for name, heap in self.pilots.items()
            if len(self.samples.get(name, ())) < min(SAMPLE, self.tasks[name].count)
            for _, task in heap
        ]

    def left_without(self, done: Sequence[JudgeTask]) -> Mapping[str, Lengths]:
        """Return the remaining tasks after these are done."""
        rest = {name: Lengths(one.count, one.chars) for name, one in self.left.items()}
        for task in done:
            rest[task.metric].count -= 1
            rest[task.metric].chars -= texts_chars(task)
        return rest

    def text(self, replay_id: str, done: int) -> str:
        """Return the text form."""
        passed = ", ".join(f"{count:,} {reason}" for reason, count in self.tally.passed.most_common())
        tasks = ", ".join(f"{all_.count:,} {name}" for name, all_ in self.tasks.items()) or "nothing to judge"
        again = f"; {done:,} exist already" if done else ""
        return (
            f"{replay_id}: {self.tally.records:,} records, {self.tally.sampled:,} events to judge"
            f"{f' ({passed})' if passed else ''}: {tasks}{again}"
        )
