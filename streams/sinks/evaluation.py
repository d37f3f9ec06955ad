"""A result in a form common to all receivers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schemas import Failed, Scored, Unscored
from streams.intake.reading.otlp.families import RESULT_ID

MAX_EXPLANATION_CHARS: Final = 4_000
AnyResult = Scored | Unscored | Failed


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verdict for receivers.

    Args:
        score: The score; None if there is none.
        label: The label, true or false for such metrics, else `scored`; or why there is no score.
        explanation: The judge's reason; may be empty.
    """

    result: AnyResult
    name: str
    score: float | None
    label: str
    explanation: str

    @property
    def key(self) -> str:
        """The id by which a receiver names a refused verdict."""
        return self.result.result_id


def evaluation(result: AnyResult) -> Evaluation:
    """Return a result's evaluation.

    A forced verdict without a score (missing input) has none here, either.
    """
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
    """Return a verdict's metadata for receivers: its weight and its judge."""
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
