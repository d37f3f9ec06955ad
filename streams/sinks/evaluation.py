"""A result in the words that all receivers share. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schemas import Failed, Scored, Unscored
from streams.intake.reading.otlp.families.judgestream import RESULT_ID

MAX_EXPLANATION_CHARS: Final = 4_000
AnyResult = Scored | Unscored | Failed


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verdict, as receivers take it.

    Args:
        result: The result itself.
        name: The metric.
        score: The score; None where there is none.
        label: The label, or true or false, of a metric that gives one, else scored; or why there is no score.
        explanation: What the judge says for it; empty for nothing.
    """

    result: AnyResult
    name: str
    score: float | None
    label: str
    explanation: str

    @property
    def key(self) -> str:
        """By which a receiver names a verdict that it refuses."""
        return self.result.result_id


def evaluation(result: AnyResult) -> Evaluation:
    """Read a result. A forced verdict without a score (missing input) has no score here, either."""
    if isinstance(result, Failed):
        return Evaluation(result, result.metric, None, "failed", result.detail[:MAX_EXPLANATION_CHARS])
    score = result.amount if isinstance(result, Scored) else None
    label = _label(result) if isinstance(result, Scored) else f"unscored: {result.reason}"
    verdict = result.verdict or {}
    said = verdict.get("justification") or verdict.get("rationale") or ""
    text = "\n".join(map(str, said)) if isinstance(said, list) else str(said)
    return Evaluation(result, result.metric, score, label, text[:MAX_EXPLANATION_CHARS])


def _label(result: Scored) -> str:
    return result.shown if isinstance(result.value, bool | str) else "scored"


def metadata(result: AnyResult) -> dict[str, str]:
    """What receivers keep beside a verdict: what it is weighted by, and who judged."""
    found = {
        RESULT_ID: result.result_id,
        "judgestream.event_id": result.event_id,
        "judgestream.sampling.probability": f"{result.sampling.probability:.6g}",
        "judgestream.evaluator.fingerprint": result.evaluator.fingerprint,
        "judgestream.evaluator.model": result.evaluator.model,
    }
    if result.replay_id is not None:
        found["judgestream.replay_id"] = result.replay_id
    return found
