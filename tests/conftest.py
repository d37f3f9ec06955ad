"""Settings of all tests."""

from __future__ import annotations

import gc
import logging
import os
import resource
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import structlog
from hypothesis import HealthCheck, settings

HERE: Final = Path(__file__).parent
SLOW_ROOMS: Final = ("examples", "docs", "integration")
"""Their tests wait for processes and brokers."""

# No deadline: tests do not assert times. In CI every run has the same examples; elsewhere each run has new
# ones.
settings.register_profile(
    "judgestream",
    deadline=None,
    derandomize=os.environ.get("CI", "").lower() in {"1", "true"},
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("judgestream")


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Restore logging after each test, because commands, workers and tests configure it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variables that name an endpoint."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variables that are settings, or of the tools."""
    for name in [name for name in os.environ if name.startswith("JUDGESTREAM_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def no_descriptors() -> Iterator[None]:
    """Let this process open no further file."""
    # What former tests left must not be collected, and its files closed, amid the test.
    gc.collect()
    gc.disable()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gc.enable()


@pytest.hookimpl(trylast=True)  # after the choice by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with tests that take long, so that a parallel run ends sooner.

    Its processes begin with equal stretches of the tests: each gets its share of those that take long.
    """
    longest: dict[object, float] = defaultdict(float)
    for item in items:
        mark = item.get_closest_marker("timeout")
        longest[item.path] = max(longest[item.path], mark.args[0] if mark else 0.0)
    items.sort(key=lambda item: -longest[item.path])
    shares = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    rooms = {item: item.path.relative_to(HERE).parts[0] for item in items}
    slow = [item for room in SLOW_ROOMS for item in items if rooms[item] == room]
    rest = [item for item in items if rooms[item] not in SLOW_ROOMS]
    items[:] = [
        item
        for share in range(shares)
        for part in (slow, rest)
        for item in part[len(part) * share // shares : len(part) * (share + 1) // shares]
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two workers more than cores, because many tests wait for processes."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return len(cores) + 2
