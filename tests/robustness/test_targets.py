"""The targets of `make fuzz` in short: the seeds and their mutations by Hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.robustness.targets import SEEDS, TARGETS, seeds

MAX_SEEDS_BYTES = 100_000


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_break_nothing(target: str) -> None:
    """Every seed passes its target."""
    assert seeds(target)
    for seed in seeds(target):
        TARGETS[target](seed)


@st.composite
def changed(draw: st.DrawFn, target: str) -> bytes:
    """A seed with parts repeated, removed, replaced or moved."""
    data = draw(st.sampled_from(seeds(target)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(start + 40, len(data))))
        part = data[start:end]
        put = draw(
            st.binary(max_size=12)
            | st.just(part * draw(st.integers(0, 20)))
            | st.text(max_size=6).map(str.encode)
        )
        data = data[:start] + put + data[end:]
    return data


@pytest.mark.parametrize("target", TARGETS)
def test_mutated_seeds_give_a_result_or_an_expected_error(target: str) -> None:
    """Mutated bytes give a result or an expected error."""

    @settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
    @given(changed(target) | st.binary(max_size=200))
    def holds(data: bytes) -> None:
        TARGETS[target](data)

    holds()


def test_the_corpus_stays_small() -> None:
    """The seeds stay small, because people read them."""
    assert sum(path.stat().st_size for path in SEEDS.rglob("*") if path.is_file()) < MAX_SEEDS_BYTES
