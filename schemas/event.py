"""QAEvent: a question answered in production. Topic `qa.events`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from schemas.base import EventId, FieldName, LabelName, LabelValue, Timestamp

MAX_MESSAGES = 200
"""Limit of an event's conversation messages."""
MAX_ROLE_CHARS = 32
MAX_TOOL_NAME_CHARS = 200
MAX_TOOL_CALLS = 100
"""Limit of an event's tool calls."""
MAX_PAGES = 10_000
"""Limit of pages in an event's context."""
MAX_LABELS = 32
MAX_FIELDS = 32
"""Limit of an event's named texts."""


def _bounded(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > MAX_LABELS:
        raise ValueError(f"labels must have at most {MAX_LABELS} entries, got {len(labels)}; drop some")
    return labels


Labels = Annotated[dict[LabelName, LabelValue], AfterValidator(_bounded)]


class ChatMessage(BaseModel):
    """A message of the conversation that led to the answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str = Field(
        min_length=1, max_length=MAX_ROLE_CHARS, description="system, user, assistant, tool, ..."
    )
    content: str = Field(description="Its text; empty if it only calls tools.")


class ToolCall(BaseModel):
    """A tool call made for the answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(max_length=MAX_TOOL_NAME_CHARS)
    arguments: str = Field(default="", description="As the model wrote them, usually JSON.")
    result: str = Field(default="", description="The tool's result; empty if unknown.")


def _if_it_fits(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Ignore values of another shape: producers used these names before they were in the schema."""
    if isinstance(value, list | tuple | dict) and len(value) > MAX_MESSAGES:
        return None  # more is invalid, and each invalid entry would add an error
    try:
        return validate(value)
    except ValidationError:
        return None


_NAMES = ("id", "name", "source", "doc_id", "document_id", "page", "title", "url")
_TEXTS = ("text", "content", "page_content", "passage", "body", "snippet")
"""Keys that retrievers use for the name and the text of a page."""
_Passed = WrapValidator(_if_it_fits)
_Messages = Annotated[tuple[ChatMessage, ...], Field(max_length=MAX_MESSAGES)]
_Page = dict[str, Any]
_ToolCalls = Annotated[tuple[ToolCall, ...], Field(max_length=MAX_TOOL_CALLS)]
_Fields = Annotated[dict[FieldName, str], Field(max_length=MAX_FIELDS)]
_ConversationId = Annotated[str, Field(min_length=1, max_length=200)]
_Probability = Annotated[float, Field(gt=0, le=1, strict=True)]


def _by_name(value: Any) -> Any:
    """Return pages by name from a list of texts or objects, or from objects by name.

    Values without a text are left for validation to refuse.
    """
    if isinstance(value, list | dict) and len(value) > MAX_PAGES:
        raise ValueError(f"must have at most {MAX_PAGES} pages, got {len(value)}; send fewer")
    if isinstance(value, list):
        pages: dict[str, Any] = {}
        for number, page in enumerate(value, 1):
            named = _first(page, _NAMES) if isinstance(page, dict) else None
            name = f"Page-{number}" if named is None else str(named)
            pages[f"Page-{number}" if name in pages else name] = _text_of(page)
        return pages
    if isinstance(value, dict):
        return {name: _text_of(page) for name, page in value.items()}
    return value


def _text_of(page: Any) -> Any:
    text = _first(page, _TEXTS) if isinstance(page, dict) else None
    return page if text is None else text


def _first(page: dict[str, Any], keys: tuple[str, ...]) -> str | int | None:
    """Return the first value of these keys that is a text or a number."""
    return next((page[key] for key in keys if isinstance(page.get(key), str | int) and page[key] != ""), None)


class QAEvent(BaseModel):
    """One answered question, as sent by a product.

    Undeclared fields are ignored. Blank texts are accepted; each metric decides whether it can judge without
    them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    event_id: EventId = Field(description="Identifies the answer; a repeated id is the same answer.")
    occurred_at: Timestamp | None = Field(
        default=None, description="Time of the answer (RFC 3339); default: the record's timestamp."
    )
    question: str = Field(description="The user's question.")
    answer: str = Field(description="The product's answer.")
    reference: str | None = Field(default=None, description="A known good answer (for coverage).")
    context: Annotated[
        dict[str, str] | None,
        BeforeValidator(_by_name, json_schema_input_type=dict[str, str | _Page] | list[str | _Page] | None),
    ] = Field(
        default=None,
        description='The pages that the answer may cite (for relevance): {"Page-1": text, ...} with any '
        "names, or a list of texts or of objects with a text and a name.",
    )
    trace_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}$", description="W3C trace id.")
    span_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{16}$", description="W3C span id.")
    tracestate: str | None = Field(default=None, max_length=512, description="W3C tracestate.")
    messages: Annotated[_Messages | None, _Passed] = Field(
        default=None,
        description="The conversation, including the answer; ignored unless it is a list of role and "
        "content.",
    )
    tool_calls: Annotated[_ToolCalls | None, _Passed] = Field(
        default=None, description="The tool calls, in order; ignored like `messages` if of another shape."
    )
    other_answer: Annotated[str | None, _Passed] = Field(
        default=None,
        description="Another answer to the same question, such as a shadow model's (for pairwise metrics).",
    )
    fields: Annotated[_Fields | None, _Passed] = Field(
        default=None,
        description="Further named texts for prompt packs; filled by ingest.mapping as `fields.<name>`.",
    )
    conversation_id: Annotated[_ConversationId | None, _Passed] = Field(
        default=None, description="The conversation of the answer."
    )
    sampling_probability: Annotated[_Probability | None, _Passed] = Field(
        default=None,
        description="Probability with which the producer kept this event, if it sends a sample "
        "(sampling.upstream).",
    )
    labels: Labels = Field(
        default_factory=dict, description="Short strings to group by: app, tenant, model, prompt_version, ..."
    )
