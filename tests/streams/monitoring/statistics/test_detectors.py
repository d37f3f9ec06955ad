from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.monitoring.statistics.detectors import BETS, WEIGHTS, ShiryaevRobertsEDetector
from tests.streams.randomness import seeded

# Value, inclusion probability and share of each stratum.
Population = list[tuple[float, float, float]]


def alarms(
    population: Population, *, tolerated_mean: float, threshold: float, samples: int, seed: int
) -> int:
    """Count the alarms over samples of a population, with a reset after each."""
    random = seeded(seed)
    detector = ShiryaevRobertsEDetector(threshold=threshold)
    largest = max(1 / probability for _, probability, _ in population)
    # The next judged answer is from a stratum with a chance of share times inclusion probability.
    chances = [share * probability for _, probability, share in population]
    count = 0
    for value, probability, _ in random.choices(population, chances, k=samples):
        if detector.update(value, tolerated_mean=tolerated_mean, share=1 / probability / largest):
            count += 1
            detector.reset()
    return count


@pytest.mark.parametrize(
    "population",
    [
        pytest.param([(1.0, 1.0, 0.8), (0.0, 1.0, 0.2)], id="all or nothing"),
        pytest.param([(1.0, 1.0, 0.6), (0.75, 1.0, 0.2), (0.25, 1.0, 0.2)], id="scores of 1 to 5"),
        pytest.param([(1.0, 0.05, 0.8), (0.0, 1.0, 0.2)], id="bad answers sampled twenty times as often"),
        pytest.param([(1.0, 1.0, 0.8), (0.0, 0.05, 0.2)], id="good answers sampled twenty times as often"),
    ],
)
@pytest.mark.parametrize("threshold", [50.0, 400.0])
def test_false_alarms_stay_within_the_bound(population: Population, threshold: float) -> None:
    """In the worst case, a mean equal to the tolerated one, there is at most one alarm in T samples."""
    # Each population has mean 0.8: 0.8; 0.6 + 0.15 + 0.05; 0.8; 0.8.
    samples = 12_000
    count = alarms(population, tolerated_mean=0.8, threshold=threshold, samples=samples, seed=5)
    allowed = samples / threshold
    # The bound (240 and 30 alarms) plus three standard deviations of a Poisson count.
    assert count <= allowed + 3 * allowed**0.5


def test_unweighted_oversampling_gives_a_false_alarm() -> None:
    """Without weights, oversampled bad answers give a false alarm."""
    random = seeded(5)
    detector = ShiryaevRobertsEDetector(threshold=400)
    # Judged: 0.8 * 0.05 = 0.04 good to 0.2 bad ones, a plain mean of 1/6.
    values = random.choices([1.0, 0.0], [0.04, 0.2], k=20)
    assert [detector.update(value, tolerated_mean=0.8) for value in values][-1]


def test_a_mean_above_the_tolerated_one_stays_calm() -> None:
    """A mean of 0.9 over a tolerated 0.8 gives no alarm in 20,000 samples."""
    calm: Population = [(1.0, 1.0, 0.9), (0.0, 1.0, 0.1)]
    assert alarms(calm, tolerated_mean=0.8, threshold=1000, samples=20_000, seed=1) == 0


@pytest.mark.parametrize(("drop", "at_most"), [(0.2, 200), (0.4, 60), (0.8, 14)])
def test_a_drop_is_called_soon(drop: float, at_most: int) -> None:
    """The delay is shorter for a larger drop below the tolerated 0.8, also after a long calm run."""
    random = seeded(11)
    detector = ShiryaevRobertsEDetector(threshold=20_000)
    for _ in range(1000):
        detector.update(1.0 if random.random() < 0.9 else 0.0, tolerated_mean=0.8)
    needed = 0
    while not detector.update(1.0 if random.random() < 0.8 - drop else 0.0, tolerated_mean=0.8):
        needed += 1
    assert needed < at_most


def test_a_tolerated_mean_that_follows_the_season_keeps_the_bound() -> None:
    """The bound holds if the tolerated mean follows a true mean between 0.7 and 0.9."""
    random = seeded(8)
    detector = ShiryaevRobertsEDetector(threshold=100)
    count = 0
    for number in range(12_000):
        mean = 0.8 + 0.1 * (1 if number // 200 % 2 else -1)
        if detector.update(float(random.random() < mean), tolerated_mean=mean):
            count += 1
            detector.reset()
    # 120 are allowed, plus three standard deviations of a Poisson count.
    assert count <= 120 + 33


def test_one_step_by_hand() -> None:
    """All bets start with M = 0, so after one sample M = 1 + λ u (m - x)."""
    detector = ShiryaevRobertsEDetector(threshold=100)
    assert not detector.update(0.25, tolerated_mean=0.5, share=0.5)
    # λ runs from 0.01 to 0.9 of 1 / (1 - 0.5) = 2, geometrically; u = 0.5, m - x = 0.25.
    bets = [0.02 * 90 ** (k / (BETS - 1)) for k in range(BETS)]
    assert sum(WEIGHTS) == pytest.approx(1)
    wanted = sum(weight * (1 + bet * 0.125) for weight, bet in zip(WEIGHTS, bets, strict=True))
    assert detector.statistic == pytest.approx(wanted)
    assert detector.samples == 1


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.001, 0.999), st.floats(1e-6, 1)), max_size=50),
    st.floats(1, 1e12),
)
def test_the_statistic_is_finite_and_never_negative(
    samples: list[tuple[float, float, float]], threshold: float
) -> None:
    """The statistic is finite and positive, an alarm equals the state's, and a reset clears the evidence."""
    detector = ShiryaevRobertsEDetector(threshold=threshold)
    for value, mean, share in samples:
        alarm = detector.update(value, tolerated_mean=mean, share=share)
        assert isfinite(detector.statistic)
        assert detector.statistic > 0
        assert alarm == (detector.statistic >= threshold)
    detector.reset()
    assert (detector.statistic, detector.samples) == (0, 0)


@given(st.lists(st.floats(0, 1), max_size=30), st.lists(st.floats(0, 1), max_size=30))
def test_a_restored_detector_continues_as_the_original(before: list[float], after: list[float]) -> None:
    """A detector restored from evidence and samples continues as the original."""
    one = ShiryaevRobertsEDetector(threshold=50)
    for value in before:
        one.update(value, tolerated_mean=0.6)
    two = ShiryaevRobertsEDetector(threshold=50)
    two.load(one.dump())
    for value in after:
        assert one.update(value, tolerated_mean=0.6) == two.update(value, tolerated_mean=0.6)
    assert one.dump() == two.dump()


def test_the_statistic_does_not_overflow() -> None:
    """Without a reset, 5,000 samples of the lowest value do not overflow the statistic."""
    detector = ShiryaevRobertsEDetector(threshold=100)
    for _ in range(5000):
        detector.update(0.0, tolerated_mean=0.9)
    assert isfinite(detector.statistic)
    assert detector.samples == 5000
    assert detector.update(1.0, tolerated_mean=0.9)


def test_invalid_arguments_are_refused() -> None:
    detector = ShiryaevRobertsEDetector(threshold=100)
    for value in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="value must be between 0 and 1"):
            detector.update(value, tolerated_mean=0.5)
    for share in (-0.1, 1.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="share must be at least 0 and at most 1"):
            detector.update(0.5, tolerated_mean=0.5, share=share)
    for mean in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="tolerated_mean must be above 0 and below 1"):
            detector.update(0.5, tolerated_mean=mean)
    with pytest.raises(ValueError, match="threshold must be at least 1"):
        ShiryaevRobertsEDetector(threshold=0.5)
