"""What all tests share."""

from __future__ import annotations

import os
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings

# No test asserts a time, and a busy machine is no defect. A run that decides whether a change lands takes the
# same examples each time; at a developer's desk each run looks at new ones.
settings.register_profile(
    "judgestream",
    deadline=None,
    derandomize=os.environ.get("CI", "").lower() in {"1", "true"},
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("judgestream")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files of the longest tests, by their time-outs: a parallel run ends sooner."""
    longest: dict[object, float] = defaultdict(float)
    for item in items:
        mark = item.get_closest_marker("timeout")
        longest[item.path] = max(longest[item.path], mark.args[0] if mark else 0.0)
    items.sort(key=lambda item: -longest[item.path])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait for processes and time-outs."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return len(cores) + 1
