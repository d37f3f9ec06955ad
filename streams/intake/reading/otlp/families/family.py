"""Which attribute means what, as the table of one family of instrumentations.

Written from the conventions, not from examples: OpenTelemetry's `semantic-conventions-genai` (still in
development) with the forms it replaced, OpenInference's `spec/`, Traceloop's `semconv_ai`, Langfuse's
`LangfuseOtelSpanAttributes`, the telemetry of Vercel's AI SDK 3 to 7 and of Pydantic AI (instrumentation
versions 1 to 5). A table's version changes with its content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal[
    "workflow",
    "agent",
    "model",
    "chain",
    "prompt",
    "retrieval",
    "rerank",
    "tool",
    "embedding",
    "evaluation",
    "other",
]
"""What a span stands for. workflow: the application's own work on one question; chain: a step of it."""
_Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The attributes of one family of instrumentations.

    Attributes:
        name: As the label `instrumentation` names it.
        version: Changes when the table changes.
        marks: First parts of attribute names, up to the full stop, that only this family uses.
        scopes: Names of instrumentations, or their first parts up to a full stop.
        kinds: By attribute, which value stands for which kind.
        given, gave: Input and output of a step, in whatever form the application has them.
        heard, said: Messages to and from a model, as one attribute.
        heard_flat, said_flat: The same, spread over attributes with these beginnings.
        system: The system instruction, beside the messages.
        question, answer, context, reference: What an application says outright.
        query: What was searched for.
        documents: What was found, as one attribute.
        documents_flat: The same, spread over attributes with these beginnings.
        variables: Variables of a prompt's template, as one attribute.
        variables_flat: The same, spread over attributes with these beginnings.
        tool_name, tool_arguments, tool_result, called: A tool's span, and the calls that a
            model's span asks for.
        model: Who answered.
        conversation: The conversation it belongs to.
        labels: Attribute to label.
        label_prefixes: Beginnings of attributes that become labels by the rest of their name.
        label_maps: Attributes that hold a mapping of labels.
        capture: How a team switches the capture of content on.
    """

    name: str
    version: str
    marks: _Names = ()
    scopes: _Names = ()
    kinds: Mapping[str, Mapping[str, Kind]] = field(default_factory=dict)
    given: _Names = ()
    gave: _Names = ()
    heard: _Names = ()
    said: _Names = ()
    heard_flat: _Names = ()
    said_flat: _Names = ()
    system: _Names = ()
    question: _Names = ()
    answer: _Names = ()
    context: _Names = ()
    reference: _Names = ()
    query: _Names = ()
    documents: _Names = ()
    documents_flat: _Names = ()
    variables: _Names = ()
    variables_flat: _Names = ()
    tool_name: _Names = ()
    tool_arguments: _Names = ()
    tool_result: _Names = ()
    called: _Names = ()
    model: _Names = ()
    conversation: _Names = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    label_prefixes: _Names = ()
    label_maps: _Names = ()
    capture: str = ""
