"""CPU time of this checkout's worker, compared with an earlier one.

`python -m benchmarks.before PATH [SETTING ...]`: use it to check that refactoring costs no speed. PATH is a
worktree of the earlier commit with its own `.venv`. A SETTING that the earlier commit lacks (such as
kafka.start) is omitted. Both read the same topics in turn, with the same instant judge.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.broker import running_broker
from benchmarks.contest import ROOT, Run, run_contestant
from benchmarks.intake import filled as intake_filled
from benchmarks.intake import worker_plan as intake_plan
from benchmarks.judgeable import instant_judge
from benchmarks.judging import filled as judging_filled
from benchmarks.judging import worker_plan as judging_plan
from benchmarks.report import Line

ROUNDS = 7
EVENTS = 100_000
TASKS = 5_000


def run(before: Path, unknown: Sequence[str]) -> Iterator[Line]:
    """Measure intake and judging in turn, each checkout in its own process.

    Args:
        before: The earlier checkout.
        unknown: Settings that it lacks, as `section.name`.
    """
    with running_broker() as broker, instant_judge(0.0) as url:
        events, tasks = intake_filled(broker, EVENTS), judging_filled(broker, TASKS)
        plans: dict[str, Callable[[], dict[str, Any]]] = {
            "intake": lambda: intake_plan(broker, events, EVENTS),
            "judging": lambda: judging_plan(broker, tasks, url, TASKS),
        }
        for name, plan in plans.items():
            runs: dict[Path, list[Run]] = {ROOT: [], before: []}
            for number in range(ROUNDS):
                for root in (ROOT, before) if number % 2 else (before, ROOT):
                    given = _without(plan(), unknown if root == before else ())
                    runs[root].append(run_contestant("worker", given, root=root))
            yield Line(
                f"{name}: CPU time, now against before",
                _median(runs[ROOT]),
                "us/record",
                baseline=_median(runs[before]),
                note=f"{broker.name}; medians of {ROUNDS} rounds in turn; "
                f"lowest {_lowest(runs[ROOT])} against {_lowest(runs[before])}",
            )


def _without(plan: dict[str, Any], unknown: Sequence[str]) -> dict[str, Any]:
    for name in unknown:
        section, _, setting = name.partition(".")
        plan["settings"][section].pop(setting)
    return plan


def _median(runs: Sequence[Run]) -> float:
    return round(statistics.median(one.cpu_microseconds for one in runs), 2)


def _lowest(runs: Sequence[Run]) -> float:
    return round(min(one.cpu_microseconds for one in runs), 2)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    for line in run(Path(sys.argv[1]).resolve(), sys.argv[2:]):
        print(json.dumps(line.as_json()), flush=True)
