from __future__ import annotations

import pytest

from judge.pool.suspicion import Suspicion


def failures_needed(*, answered: int, failed: int) -> int | None:
    """The number of failures that prove the event at fault, up to 1,000."""
    doubt = Suspicion()
    for count in range(1, 1_001):
        doubt.failed(others_answered=answered, others_failed=failed)
        if doubt.proven:
            return count
    return None


@pytest.mark.parametrize(
    ("answered", "failed", "needed"),
    [
        (0, 0, None),  # no other call: nothing is known
        (0, 500, None),  # an outage
        (1000, 0, 3),  # 0.01 ** 3 = 1e-6
        (99, 0, 3),
        (9, 0, 6),  # (1/10) ** 6 = 1e-6
        (1, 0, 20),  # (1/2) ** 20 = 0.95e-6
        (50, 49, 20),  # every other call fails: (50/100) ** 20
    ],
)
def test_an_event_is_given_up_on_evidence(answered: int, failed: int, needed: int | None) -> None:
    """An event is abandoned if its failures have a probability below one in a million at the rate of the
    others.
    """
    assert failures_needed(answered=answered, failed=failed) == needed
