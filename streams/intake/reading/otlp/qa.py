"""The question and answer in a trace. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from schemas.base import MAX_LABEL_NAME_CHARS, MAX_LABEL_VALUE_CHARS, MAX_LABELS
from streams.intake.reading.otlp.content.pages import (
    Document,
    as_pages,
    documents_in_result,
    pages_in_text,
    pages_of,
)
from streams.intake.reading.otlp.content.prompt import Prompt, open_prompt, pages_told
from streams.intake.reading.otlp.content.turn import Turn
from streams.intake.reading.otlp.families.precedence import FAMILIES
from streams.intake.reading.otlp.families.shape import Field
from streams.intake.reading.otlp.steps.step import Step, is_search
from streams.intake.reading.otlp.steps.tool import ToolUse
from streams.intake.reading.otlp.trace import Trace

QUESTION_FROM: Final = "question_from"
"""Label: attribute (set by the application), input (of the outermost step), variable (of a prompt template),
query (of a retriever), prompt (extracted from the last user message) or message (that whole message)."""
CONTEXT_FROM: Final = "context_from"
"""Label: attribute, retrieval, variable or prompt; absent without pages."""
INSTRUMENTATION: Final = "instrumentation"
"""Label: the family of instrumentations, as `families` names it."""
TRACE_PARTS: Final = "trace_parts"
"""Label: incomplete where the root, or the parent of a span, was missing when the trace was closed; else cut
where a limit on the length of attributes cut the messages."""

_RESOURCE_LABELS: Final = {
    "service.name": "app",
    "service.version": "app_version",
    "deployment.environment.name": "environment",
    "deployment.environment": "environment",
    "service.namespace": "namespace",
}
_UNNAMED: Final = "unknown_service"
MAX_MESSAGES: Final = 200
MAX_TOOL_CALLS: Final = 100


class Found(NamedTuple):
    """A value and its source."""

    value: Any
    source: str


def question_of(trace: Trace, answer: Step) -> tuple[Found | None, Prompt | None]:
    """Find the question, and split the last user message into question and pages.

    In this order: the application's attribute; the input of the outermost step around the answer; a variable
    of a prompt template; a question marked in the last user message; a retriever's query; that whole message;
    the input of the first step that recorded one.
    """
    around = [*trace.around(answer), answer]
    prompt = next(_prompts(trace, answer), None)
    for step in _with("question", (*around, *trace.judged)):
        if (stated := step.question) is not None:
            return Found(stated, "attribute"), prompt
    for step in around:
        if step.kind in {"workflow", "agent", "chain"} and step.asked is not None:
            own = open_prompt(step.asked)
            return Found(own.question, "prompt" if own.is_cut else "input"), own if own.is_cut else prompt
    for step in trace.judged:
        asked = step.asked_in_variables
        if asked is not None:
            return Found(asked, "variable"), prompt
    if prompt is not None and prompt.is_cut:
        # More reliable than a retriever's query, which is often rewritten from the question.
        return Found(prompt.question, "prompt"), prompt
    return _indirect_question(trace, prompt), prompt


def _indirect_question(trace: Trace, prompt: Prompt | None) -> Found | None:
    """Find a retriever's query, the last user message, or the input of the first step that recorded one."""
    query = next((step.query for step in trace.of_kind("retrieval") if step.query is not None), None)
    if query is not None:
        return Found(query, "query")
    if prompt is not None:
        return Found(prompt.question, "message")
    steps = trace.of_kind("workflow", "agent", "chain")
    return next((Found(step.asked, "input") for step in steps if step.asked is not None), None)


def _with(field: Field, steps: Iterable[Step]) -> list[Step]:
    """Select the steps that carry a field; most traces have none."""
    return [step for step in steps if field in step.fields]


def _prompts(trace: Trace, answer: Step) -> Iterator[Prompt]:
    """Split the last user messages, each when it is needed."""
    return (open_prompt(text) for text in _user_messages(trace, answer) if text)


def _user_messages(trace: Trace, answer: Step) -> Iterator[str | None]:
    """The last user message of the answer's step, then those of the models within it, else of all."""
    yield answer.last_question
    for step in _models_within(trace, answer) or trace.models[::-1]:
        yield step.last_question


def _models_within(trace: Trace, answer: Step) -> list[Step]:
    """The model calls within the answer's step: those with the answer's text, then the others, last first.

    A later call may write the title of a chat.
    """
    within = [step for step in trace.models[::-1] if any(one is answer for one in trace.around(step))]
    if len(within) > 1 and (text := (answer.answer or "").strip()):
        within.sort(key=lambda step: text not in (step.answer or ""))
    return within


def context_of(
    trace: Trace, answer: Step, prompt: Prompt | None, calls: Sequence[Mapping[str, str]]
) -> Found | None:
    """Find the pages that the answer may cite.

    In this order: the application's attribute; the reranked documents, else the retrieved ones, else the
    results of search tools; a variable of a prompt template, or of a step around the answer; pages marked in
    the user message or in a system instruction.
    """
    for step in _with("context", (answer, *trace.judged)):
        if (stated := step.context) is not None:
            return Found(pages_of(stated), "attribute")
    found = sorted((step for step in trace.judged if step.searches), key=lambda step: step.span.start)
    reranked = [step for step in found if step.kind == "rerank" and any(one.text for one in step.documents)]
    documents = [document for step in reranked[-1:] or found for document in step.documents]
    pages = as_pages(documents or _found_by_tools(calls))
    if pages:
        return Found(pages, "retrieval")
    for step in trace.judged:
        if (told := step.context_in_variables) is not None and (pages := pages_of(told)):
            return Found(pages, "variable")
    for step in (*trace.around(answer), answer):
        if (told := step.context_in_exchange) is not None and (pages := pages_of(told)):
            return Found(pages, "variable")
    if prompt is not None and prompt.pages:
        return Found(prompt.pages, "prompt")
    # A workflow's input is the question alone; the pages are in the prompt of a model within it.
    within = next((one.pages for one in _prompts(trace, answer) if one.pages), None)
    within = within or next((told for one in _heard_by(trace, answer) if (told := pages_told(one))), None)
    return None if within is None else Found(within, "prompt")


def _found_by_tools(calls: Iterable[Mapping[str, str]]) -> list[Document]:
    return [
        document
        for call in calls
        if is_search(call["name"]) or pages_in_text(call["result"])
        for document in documents_in_result(call["result"])
    ]


def _heard_by(trace: Trace, answer: Step) -> Iterator[str]:
    """The system instructions of the answer's step, and of the models, the last one first."""
    for step in (answer, *reversed(trace.models)):
        yield from (turn.text for turn in step.heard[:1] if turn.role == "system")


def messages_of(trace: Trace, answer: Step) -> list[dict[str, Any]]:
    """Write the conversation: the messages to the answer's step, else to a model in it, and the answer.

    At most MAX_MESSAGES: the system instruction and the last of the others; none if only the answer is known.
    """
    within = [step for step in _models_within(trace, answer) if step.heard]
    speaker = within[0] if within and not answer.heard else answer
    turns = [*speaker.heard, *(speaker.said or (Turn("assistant", answer.answer or ""),))]
    if turns[0].role != "system":  # only the model within an agent has the instruction
        told = (step.heard[0] for step in within if step.heard[0].role == "system")
        turns = [*islice(told, 1), *turns]
    if len(turns) > MAX_MESSAGES:
        system = [turn for turn in turns[:1] if turn.role == "system"]
        turns = [*system, *turns[len(system) - MAX_MESSAGES :]]
    if all(turn.role == "assistant" for turn in turns):
        return []
    return [{"role": turn.role[:32], "content": turn.text} for turn in turns if turn.text or turn.tool_calls]


def tool_calls_of(trace: Trace, answer: Step) -> list[dict[str, str]]:
    """Write the tools that ran, else the calls that models requested."""
    uses = [one for step in trace.of_kind("tool") if (one := step.tool) is not None]
    if not any(one.result for one in uses):  # the messages may know more
        uses = max(uses, _requested(trace, answer), key=_content_of)
    return [
        {"name": one.name, "arguments": one.arguments, "result": one.result} for one in uses[:MAX_TOOL_CALLS]
    ]


def _content_of(calls: Sequence[ToolUse]) -> tuple[bool, ...]:
    return any(one.result for one in calls), any(one.arguments for one in calls), bool(calls)


def _requested(trace: Trace, answer: Step) -> list[ToolUse]:
    """Read tool calls and their results from the messages."""
    # A later call repeats the messages of earlier ones, so the last step with tool calls has them all.
    exchanges = ((*step.heard, *step.said) for step in dict.fromkeys((*trace.models[::-1], answer)))
    turns = next((turns for turns in exchanges if any(turn.tool_calls for turn in turns)), ())
    calls = [call for turn in turns for call in turn.tool_calls]
    known = {call.call_id for call in calls if call.call_id}
    replies = [turn for turn in turns if turn.role == "tool"]
    results = {turn.call_id: turn.text for turn in replies if turn.call_id in known}
    others = iter([turn.text for turn in replies if turn.call_id not in known])  # without ids: in order
    return [
        ToolUse(call.name, call.arguments, results.get(call.call_id) or next(others, "")) for call in calls
    ]


def labels_of(trace: Trace, answer: Step, found: Sequence[tuple[str, Found | None]]) -> dict[str, str]:
    """Collect the labels of the service and of the spans, and the sources of question and context."""
    labels: dict[str, str] = {}
    for name, source in found:
        if source is not None:
            labels[name] = source.source
    if answer.family or trace.models:
        labels[INSTRUMENTATION] = answer.family or trace.models[-1].family
    speakers = [step for step in reversed(trace.models) if step.kind == "model"]
    models = (step.model for step in (*speakers, answer, *reversed(trace.models)))
    model = next((model for model in models if model), None)
    if model is not None:
        labels["model"] = model
    provider = next((step.labels["provider"] for step in speakers if "provider" in step.labels), None)
    if provider is not None:
        labels["provider"] = provider
    for name, label in _RESOURCE_LABELS.items():
        value = answer.span.resource.get(name)
        if isinstance(value, str) and value and not value.startswith(_UNNAMED):
            labels.setdefault(label, value)
    for step in dict.fromkeys((answer, *trace.around(answer)[::-1], *trace.models[::-1])):
        for name, value in step.labels.items():
            labels.setdefault(name, value)
    kept = list(labels.items())[:MAX_LABELS]
    return {name: value[:MAX_LABEL_VALUE_CHARS] for name, value in kept if len(name) <= MAX_LABEL_NAME_CHARS}


def event_fields(trace: Trace, answer: Step, *, event_id: str, joined: bool = True) -> dict[str, Any]:
    """Write the fields of the event that a trace, or one span of it, becomes.

    Args:
        trace: The trace, or a part of it.
        answer: The step whose output is the answer.
        event_id: Id of the event.
        joined: Whether the trace was joined, so that missing spans get a label.

    Returns:
        Fields of `QAEvent` by name.
    """
    question, prompt = question_of(trace, answer)
    calls = tool_calls_of(trace, answer)
    context = context_of(trace, answer, prompt, calls)
    labels = labels_of(trace, answer, [(QUESTION_FROM, question), (CONTEXT_FROM, context)])
    if joined and not trace.complete and not answer.span.is_log:
        labels[TRACE_PARTS] = "incomplete"
    elif any(step.is_cut for step in (answer, *trace.models[-1:])):
        labels[TRACE_PARTS] = "cut"
    references = (step.reference for step in _with("reference", (answer, *trace.judged)))
    conversations = (step.conversation for step in _with("conversation", (answer, *trace.steps)))
    conversation = next((one for one in conversations if one), None)
    fields: dict[str, Any] = {
        "event_id": event_id,
        "occurred_at": _moment(answer.span.end or answer.span.start),
        "question": "" if question is None else question.value,
        "answer": (answer.answer or "").strip(),
        "reference": next((one for one in references if one is not None), None),
        "context": None if context is None else context.value,
        "trace_id": answer.span.trace_id or None,
        "span_id": answer.span.span_id or None,
        "tracestate": tracestate_of(trace, answer),
        "labels": labels,
        "messages": messages_of(trace, answer) or None,
        "tool_calls": calls or None,
        "conversation_id": None if conversation is None else conversation[:200],
    }
    return fields


def tracestate_of(trace: Trace, answer: Step) -> str | None:
    """Select the tracestate with a threshold: the answer's, else the root's, else the first of the spans.

    Some samplers write it on roots only.
    """
    root = () if trace.root is None else (trace.root,)
    states = [step.span.tracestate for step in (answer, *root, *trace.steps) if step.span.tracestate]
    return next((state for state in states if "th:" in state), states[0] if states else None)


def _moment(nanoseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds > 0 else None
    except (OverflowError, ValueError, OSError):
        return None


def capture_hints(families: Sequence[str]) -> Mapping[str, str]:
    """By family, how to switch on the capture of content."""
    return {one.name: one.capture for one in FAMILIES if one.name in families and one.capture}
