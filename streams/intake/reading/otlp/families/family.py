"""The table of one family of instrumentations: the meaning of its attributes.

Sources: OpenTelemetry's `semantic-conventions-genai` (still in development) with the forms it replaced,
OpenInference's `spec/`, Traceloop's `semconv_ai`, Langfuse's `LangfuseOtelSpanAttributes`, the telemetry of
Vercel's AI SDK 3 to 7, of Pydantic AI (instrumentation versions 1 to 5) and of Genkit. A table's version
changes with its content.
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
"""The kind of a span. workflow: the application's work on one question; chain: a step of it."""
_Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The attributes of one family of instrumentations.

    Attributes:
        name: The value of the label `instrumentation`.
        version: Changes when the table changes.
        marks: First parts of attribute names, up to the full stop, that only this family uses.
        scopes: Names of instrumentations, or their first parts up to a full stop.
        kinds: By attribute, the kind of each value, or (`*`) of each value with this end.
        given, gave: Input and output of a step, in the application's own form.
        heard, said: Messages to and from a model, in one attribute.
        heard_flat, said_flat: Prefixes of attributes that together hold such messages.
        system: The system instruction, if it is not among the messages.
        question, answer, context, reference: Attributes that the application sets.
        query: The query of a retriever.
        documents: Retrieved documents, in one attribute.
        documents_flat: Prefixes of attributes that together hold such documents.
        variables: Variables of a prompt template, in one attribute.
        variables_flat: Prefixes of attributes that together hold such variables.
        tool_name, tool_arguments, tool_result: Of a tool's span.
        called: The tool calls that a model requests.
        model: The model's name.
        conversation: The conversation's id.
        labels: Label names by attribute.
        label_prefixes: Prefixes of attributes that become labels, named by the rest of the attribute's name.
        label_maps: Attributes that hold a mapping of labels.
        capture: How to enable the recording of content.
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
