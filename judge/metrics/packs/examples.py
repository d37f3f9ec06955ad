"""Check a prompt pack's examples against its scoring rules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from judge.errors import InvalidVerdictError
from judge.metric import Metric, ScoredOutcome, unsampled_task
from judge.metrics.packs.options import Example
from judge.metrics.packs.pack import PromptPack
from judge.metrics.replies import extract_verdict
from judge.text.printable import printable
from schemas import QAEvent

_DETAIL_CHARS: Final = 160
_NEVER: Final = datetime.fromtimestamp(0, UTC)


def example_warnings(metric: Metric, pack: PromptPack) -> Iterator[str]:
    """Score the reply of each example of a pack, and warn if the published score would differ.

    Args:
        metric: The metric that uses the pack.
        pack: The pack.

    Yields:
        A warning for each such example: its number, both scores and the reason. A judge that follows the
        example would be corrected, or asked for a repair, every time.
    """
    for number, example in enumerate(pack.options.examples, 1):
        trouble = _trouble(metric, example)
        if trouble is not None:
            yield f"example {number} {trouble}; correct its texts or its reply"


def _trouble(metric: Metric, example: Example) -> str | None:
    inputs = example.inputs
    event = QAEvent(
        event_id="judgestream-example",
        question=inputs.question,
        answer=inputs.answer,
        reference=inputs.reference,
        context=None if inputs.context is None else dict(inputs.context),
    )
    task = unsampled_task(event, metric, source=event.event_id, now=_NEVER)
    try:
        outcome = metric.interpret(task, example.reply)
    except InvalidVerdictError as error:
        return f"has a reply that the judge would have to repair: {printable(error.detail, _DETAIL_CHARS)}"
    if not isinstance(outcome, ScoredOutcome):
        return None
    if outcome.objection is not None:
        return (
            f"has a reply that the judge would have to repair: {printable(outcome.objection, _DETAIL_CHARS)}"
        )
    said: Any = extract_verdict(example.reply)["score"]
    published = outcome.score if outcome.value is None else outcome.value
    if _is(said, published):
        return None
    reasons = "; ".join(printable(one.detail, _DETAIL_CHARS) for one in outcome.corrections)
    return f"says {said!r} and would be published as {published!r}: {reasons}"


def _is(said: Any, published: float | str) -> bool:
    """Return whether a score as written in the reply (5.0, "5") equals the published one."""
    if said == published:
        return True
    try:
        return float(said) == published
    except (TypeError, ValueError):
        return False
