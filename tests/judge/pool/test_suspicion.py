from __future__ import annotations

import pytest

from judge.pool.suspicion import Suspicion


def failures_needed(*, answered: int, failed: int) -> int | None:
    """How many failures prove it, up to a thousand."""
    doubt = Suspicion()
    for count in range(1, 1_001):
        doubt.failed(others_answered=answered, others_failed=failed)
        if doubt.proven:
            return count
    return None


@pytest.mark.parametrize(
    ("answered", "failed", "needed"),
    [
        (0, 0, None),  # nobody else was asked: nothing is known
        (0, 500, None),  # an outage
        (1000, 0, 3),  # 0.01 ** 3 = 1e-6
        (99, 0, 3),
        (9, 0, 6),  # (1/10) ** 6 = 1e-6
        (1, 0, 20),  # (1/2) ** 20 = 0.95e-6
        (50, 49, 20),  # every other call fails: (50/100) ** 20
    ],
)
def test_an_event_is_given_up_on_evidence(answered: int, failed: int, needed: int | None) -> None:
    """When one like the others would have failed so often with less than one in a million."""
    assert failures_needed(answered=answered, failed=failed) == needed
