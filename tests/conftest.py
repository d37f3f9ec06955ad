"""What all tests share."""

from __future__ import annotations

import os

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
