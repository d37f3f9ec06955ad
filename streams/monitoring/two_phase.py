"""The strong judge's mean from two-phase judging: few strong scores, and cheap ones of all answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from math import sqrt
from typing import Final, NamedTuple

from schemas import Result, Scored
from streams.monitoring.config import Measure
from streams.monitoring.statistics.estimators import SlidingSums, WeightedSums

MEMORY: Final = 2_000.0
"""Pairs of scores that the prediction remembers."""
DOUBT: Final = 10.0
"""Imagined pairs with equal scores, so that few pairs do not decide the prediction."""


@dataclass(slots=True)
class Prediction:
    """Predicts the strong judge's score from the cheap one's: a line through the pairs before."""

    sums: list[float] = field(default_factory=lambda: [0.0] * 6)
    """Of the weight u, of ux, uy, ux², uxy and uy², x the cheap score and y the strong one."""
    squares: float = 0.0
    """Sum of u²."""

    def add(self, cheap: float, strong: float, weight: float) -> None:
        terms = (1.0, cheap, strong, cheap * cheap, cheap * strong, strong * strong)
        kept = 1 - 1 / MEMORY
        self.sums = [one * kept + weight * term for one, term in zip(self.sums, terms, strict=True)]
        self.squares = self.squares * kept + weight * weight

    @property
    def pairs(self) -> float:
        """Their effective number: few that stand for most answers count as few."""
        return self.sums[0] ** 2 / self.squares if self.squares else 0.0

    def of(self, cheap: float, lowest: float, highest: float) -> float:
        """Return the prediction, on the scale; the cheap score itself before the first pair."""
        if not self.pairs:
            return cheap
        mean, strong, square, both, _ = (one / self.sums[0] for one in self.sums[1:])
        doubt = DOUBT * ((highest - lowest) / 4) ** 2
        slope = (self.pairs * (both - mean * strong) + doubt) / (self.pairs * (square - mean**2) + doubt)
        offset = (strong - mean) * self.pairs / (self.pairs + DOUBT)
        return min(max(mean + offset + slope * (cheap - mean), lowest), highest)

    @property
    def correlation(self) -> float | None:
        """The correlation of the two judges' scores; None if one of them does not vary."""
        if not self.pairs:
            return None
        mean, strong, square, both, strong_square = (one / self.sums[0] for one in self.sums[1:])
        spread = (square - mean**2) * (strong_square - strong**2)
        return None if spread <= 1e-12 else (both - mean * strong) / sqrt(spread)


class Pair(NamedTuple):
    """An answer's scores, None without one, and the probabilities of the strong judge and of sampling."""

    cheap: float | None
    strong: float | None
    drawn: float
    probability: float
    occurred_at: datetime


@dataclass(slots=True)
class TwoPhase:
    """What the cheap scores add to the estimate of the strong judge's mean.

    An answer with cheap score x counts as z = f(x) + I (y - f(x)) / q: y the strong score, I whether it was
    drawn, q with which probability, and f the prediction from earlier pairs. Given x and f, the expectation
    of z is y's, whatever the cheap judge says; the better it predicts, the less z varies. Where strong
    verdicts fail or are late, f stands in for them. Source: Särndal, Swensson, Wretman, Model Assisted Survey
    Sampling (1992), section 9.7. Deviation: f is a running fit, so that z never depends on its own answer.
    """

    prediction: Prediction = field(default_factory=Prediction)
    windows: dict[str, SlidingSums] = field(default_factory=dict)
    """Sums of z by stratum."""

    def add(self, pair: Pair, measure: Measure, stratum: str, now: datetime, seconds: float) -> None:
        """Add an answer to the window of so many seconds, and learn from it if it has both scores."""
        cheap, strong, drawn = pair.cheap, pair.strong, pair.drawn
        if cheap is None:
            z = strong or 0.0
        else:
            z = self.prediction.of(cheap, measure.lowest, measure.highest)
            if strong is not None:
                z += (strong - z) / drawn
                self.learn(pair)
        window = self.windows.setdefault(stratum, SlidingSums(seconds))
        sums = WeightedSums().add(z, pair.probability)
        window.add(sums, occurred_at=min(pair.occurred_at, now), now=now)

    def learn(self, pair: Pair) -> None:
        """Learn from an answer if it has both scores, as one of those that it stands for in all strata."""
        if pair.cheap is not None and pair.strong is not None:
            self.prediction.add(pair.cheap, pair.strong, 1 / (pair.drawn * pair.probability))


def pair_of(result: Result) -> Pair:
    phase, probability, moment = result.first_phase, result.sampling.probability, result.times.occurred_at
    amount = result.amount if isinstance(result, Scored) else None
    if phase is None:
        return Pair(None, amount, 1.0, probability, moment)
    drawn = 1 - phase.probability if is_first(result) else phase.probability
    strong = amount if result.evaluator.fingerprint == phase.strong else None
    return Pair(phase.score, strong, phase.probability, min(probability / drawn, 1.0), moment)


def views(result: Result) -> tuple[Result, ...]:
    """Return a result as each evaluator's series sees it; the cheap judge's has the scores of all answers."""
    phase = result.first_phase
    if phase is None:
        return (result,)
    probability = pair_of(result).probability
    update: dict[str, object] = {"sampling": result.sampling.model_copy(update={"probability": probability})}
    if is_first(result):
        return (result.model_copy(update=update),)
    if not isinstance(result, Scored):
        return (result,)
    named = {"fingerprint": phase.fingerprint, "model": phase.model}
    update |= {"evaluator": result.evaluator.model_copy(update=named)}
    update |= {"value": phase.score, "score": round(phase.score), "corrections": (), "suspicions": ()}
    return (result, result.model_copy(update=update))


def is_first(result: Result) -> bool:
    """Whether a result of two-phase judging is the cheap judge's."""
    phase = result.first_phase
    return phase is not None and result.evaluator.fingerprint == phase.fingerprint


def as_strong(both: WeightedSums, strong: WeightedSums) -> WeightedSums:
    """Return sums with the mean and variance of z, and the effective count of the strong scores alone."""
    n, mean = strong.effective_count, both.mean
    if mean is None or n <= 0:
        return strong
    typical, error = both.weight / n, both.squared_residuals()
    return WeightedSums(
        count=strong.count,
        weight=both.weight,
        weighted=mean * both.weight,
        weighted_square=both.weighted_square,
        weight_square=typical * both.weight,
        weight_square_score=mean * typical * both.weight,
        weight_square_score_square=error + mean * mean * typical * both.weight,
    )
