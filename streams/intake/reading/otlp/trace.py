"""A trace in one form for all families, and its answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal

from streams.intake.reading.otlp.families import Kind
from streams.intake.reading.otlp.span import Span, SpanEvent
from streams.intake.reading.otlp.step import ANSWERING, MODELS, Step

MAX_DEPTH: Final = 200  # deeper spans count as this deep
_RANK: Final[Mapping[Kind, int]] = {"workflow": 0, "agent": 0, "model": 1, "chain": 2, "other": 3}

NoAnswer = Literal["ours", "no_model", "no_content", "no_answer"]
WHY_NO_ANSWER: Final[Mapping[NoAnswer, str]] = {
    "ours": "spans of a judgestream worker are not judged",
    "no_model": "it has no model call",
    "no_content": "the model's answer was not recorded",
    "no_answer": "no model call has an answer text",  # tool calls, early ends, or only evaluations
}


class Trace:
    """The steps of a trace that have arrived."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.steps: tuple[Step, ...] = tuple(Step(span) for span in merge(spans))
        self._by_id = {step.span.span_id: step for step in self.steps}
        self._around: dict[str, list[Step]] = {}

    @cached_property
    def root(self) -> Step | None:
        roots = [step for step in self.steps if not step.span.parent_id and not step.span.is_log]
        return min(roots, key=lambda step: step.span.start, default=None)

    @property
    def complete(self) -> bool:
        return self.root is not None and all(
            not step.span.parent_id or step.span.parent_id in self._by_id for step in self.steps
        )

    def around(self, step: Step) -> list[Step]:
        """The enclosing spans, the outermost first."""
        around = self._around.get(step.span.span_id)
        if around is None:
            seen: dict[str, Step] = {}
            parent = self._by_id.get(step.span.parent_id)
            while parent not in (None, step) and parent.span.span_id not in seen and len(seen) < MAX_DEPTH:
                seen[parent.span.span_id] = parent
                parent = self._by_id.get(parent.span.parent_id)
            around = self._around[step.span.span_id] = [*seen.values()][::-1]
        return around

    @cached_property
    def judged(self) -> tuple[Step, ...]:
        """The application's steps, without those of a judgestream worker and within evaluations."""
        apart = {step.span.span_id for step in self.steps if step.kind == "evaluation" or step.is_ours}
        if not apart:
            return self.steps
        return tuple(
            step
            for step in self.steps
            if apart.isdisjoint([step.span.span_id, *(one.span.span_id for one in self.around(step))])
        )

    @cached_property
    def models(self) -> tuple[Step, ...]:
        found = [step for step in self.judged if step.kind in MODELS]
        return tuple(sorted(found, key=lambda step: step.span.end))

    @cached_property
    def answer(self) -> Step | None:
        """The outermost workflow, agent or model, else the outermost step around a model.

        In a trace without a model only the root qualifies, if it has a question. Of equal steps the last to
        end is the answer: earlier ones are drafts and plans.
        """
        told = [step for step in self.judged if step.attributes.get("judgestream.answer")]
        around_models = {one.span.span_id for model in self.models for one in (*self.around(model), model)}
        able = told or [
            step
            for step in self.judged
            if step.kind in ANSWERING
            and (step.kind != "chain" or step.span.span_id in around_models or not self.models)
        ]
        able.sort(key=lambda step: (len(self.around(step)), _RANK.get(step.kind, 3), -step.span.end))
        for step in able:  # most outputs are never read
            if step.answer is not None and (
                self.models
                or (not step.span.parent_id and (step.asked is not None or step.last_question is not None))
            ):
                return step
        return None

    @property
    def why_no_answer(self) -> NoAnswer:
        if self.steps and not self.judged and any(step.is_ours for step in self.steps):
            return "ours"
        if not self.models:
            return "no_model"
        called = [step for step in self.models if step.kind == "model"] or self.models
        return "no_content" if called[-1].lacks_content else "no_answer"

    def of_kind(self, *kinds: Kind) -> Sequence[Step]:
        return sorted((step for step in self.judged if step.kind in kinds), key=lambda step: step.span.start)


def merge(spans: Iterable[Span]) -> list[Span]:
    by_id: dict[str, list[Span]] = {}
    for index, span in enumerate(spans):
        by_id.setdefault(span.span_id or f"#{index}", []).append(span)
    return [same[0] if len(same) == 1 else _merged(same) for same in by_id.values()]


def _merged(same: Sequence[Span]) -> Span:
    """Keep the copy of a span with the most attributes; each log record becomes one event of it."""
    logs = [one for one in same if one.is_log]
    copies = [one for one in same if not one.is_log]
    kept = max(copies, key=lambda one: len(one.attributes)) if copies else logs.pop(0)
    events = {repr((one.name, one.attributes)): one for one in kept.events}
    for log in logs:
        events.setdefault(repr((log.name, log.attributes)), SpanEvent(log.name, log.attributes))
    if kept.is_log:
        events.pop(repr((kept.name, kept.attributes)), None)
    return kept._replace(events=tuple(events.values()), end=max(one.end for one in (kept, *logs)))


def normalised(trace: Trace, answer: Step) -> dict[str, Any]:
    """Write a trace as the JSON that `ingest.mapping` reads; times are in seconds since the epoch."""
    return {
        "trace_id": answer.span.trace_id,
        "resource": dict(answer.span.resource),
        "root": None if trace.root is None else _described(trace.root),
        "answer_span": _described(answer),
        "llm": [_described(step) for step in trace.models],
        "retrievals": [_described(step) for step in trace.of_kind("retrieval", "rerank")],
        "tools": [_described(step) for step in trace.of_kind("tool")],
        "spans": [_described(step) for step in trace.steps],
    }


def _described(step: Step) -> dict[str, Any]:
    span = step.span
    return {
        "span_id": span.span_id,
        "parent_span_id": span.parent_id or None,
        "name": span.name,
        "kind": step.kind,
        "instrumentation": step.family or None,
        "scope": span.scope,
        "start": span.start / 1e9,
        "end": span.end / 1e9,
        "error": span.error,
        "attributes": dict(step.attributes),
        "input": step.asked or step.last_question,
        "output": step.answer,
        "messages": [{"role": turn.role, "content": turn.text} for turn in step.heard],
        "output_messages": [{"role": turn.role, "content": turn.text} for turn in step.said],
        "documents": [one._asdict() for one in step.documents],
        "query": step.query,
        "variables": dict(step.variables),
        "tool": None if step.tool is None else step.tool._asdict(),
        "model": step.text("model"),
    }
