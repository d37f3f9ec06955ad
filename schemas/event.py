"""QAEvent: a question that was answered in production. Topic `qa.events`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from schemas.base import EventId, FieldName, Labels, Timestamp

MAX_MESSAGES = 200
"""Messages of a conversation that an event may carry."""
MAX_ROLE_CHARS = 32
MAX_TOOL_NAME_CHARS = 200
MAX_TOOL_CALLS = 100
"""Calls of tools that an event may carry."""
MAX_PAGES = 10_000
"""Pages that an event's context may have."""
MAX_FIELDS = 32
"""Named texts that an event may carry."""


class ChatMessage(BaseModel):
    """One message of the conversation that led to the answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str = Field(
        min_length=1, max_length=MAX_ROLE_CHARS, description="system, user, assistant, tool, ..."
    )
    content: str = Field(description="Its text; empty where it only calls tools.")


class ToolCall(BaseModel):
    """One call of a tool on the way to the answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(max_length=MAX_TOOL_NAME_CHARS)
    arguments: str = Field(default="", description="As the model wrote them, mostly JSON.")
    result: str = Field(default="", description="What the tool gave back; empty where it is not known.")


def _if_it_fits(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Producers had fields of these names, in their own shapes, before events did: those are skipped."""
    if isinstance(value, list | tuple | dict) and len(value) > MAX_MESSAGES:
        return None  # none may have more, and each entry that does not fit would make an error of its own
    try:
        return validate(value)
    except ValidationError:
        return None


_NAMES = ("id", "name", "source", "doc_id", "document_id", "page", "title", "url")
_TEXTS = ("text", "content", "page_content", "passage", "body", "snippet")
"""What retrievers call the name and the text of a page."""
_Passed = WrapValidator(_if_it_fits)
_Messages = Annotated[tuple[ChatMessage, ...], Field(max_length=MAX_MESSAGES)]
_Page = dict[str, Any]
_ToolCalls = Annotated[tuple[ToolCall, ...], Field(max_length=MAX_TOOL_CALLS)]
_Fields = Annotated[dict[FieldName, str], Field(max_length=MAX_FIELDS)]
_ConversationId = Annotated[str, Field(min_length=1, max_length=200)]
_Probability = Annotated[float, Field(gt=0, le=1, strict=True)]


def _by_name(value: Any) -> Any:
    """Pages by name, from a list of texts or of objects, or from objects by name.

    What has no text stays as it is and is refused.
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
    """The first of some keys that holds a text or a number."""
    return next((page[key] for key in keys if isinstance(page.get(key), str | int) and page[key] != ""), None)


class QAEvent(BaseModel):
    """One answered question, as a product emits it.

    Fields that are not declared here are ignored: producers add to their events at will.
    Blank texts are accepted: whether a metric can judge without them is the metric's to say.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    event_id: EventId = Field(description="Identifies the answer; the same id again is the same answer.")
    occurred_at: Timestamp | None = Field(
        default=None, description="When the answer was given (RFC 3339); else the record's timestamp."
    )
    question: str = Field(description="What the user asked.")
    answer: str = Field(description="What the product answered.")
    reference: str | None = Field(default=None, description="A known good answer (for coverage).")
    context: Annotated[
        dict[str, str] | None,
        BeforeValidator(_by_name, json_schema_input_type=dict[str, str | _Page] | list[str | _Page] | None),
    ] = Field(
        default=None,
        description='The pages the answer may cite (for relevance): {"Page-1": text, ...}, under any '
        "names, or "
        "a list of texts or of "
        "objects with a text and a name.",
    )
    trace_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}$", description="W3C trace id.")
    span_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{16}$", description="W3C span id.")
    tracestate: str | None = Field(default=None, max_length=512, description="W3C tracestate.")
    messages: Annotated[_Messages | None, _Passed] = Field(
        default=None,
        description=(
            "The conversation, the answer included; what is no list of role and content is passed over."
        ),
    )
    tool_calls: Annotated[_ToolCalls | None, _Passed] = Field(
        default=None, description="The tools that were called, in order; passed over as `messages` are."
    )
    other_answer: Annotated[str | None, _Passed] = Field(
        default=None, description="Another answer to the same question, of a shadow model say (for pairs)."
    )
    fields: Annotated[_Fields | None, _Passed] = Field(
        default=None,
        description=(
            "Further texts by name, for prompt packs that use them; ingest.mapping fills them as "
            "`fields.<name>`."
        ),
    )
    conversation_id: Annotated[_ConversationId | None, _Passed] = Field(
        default=None, description="The conversation that the answer belongs to."
    )
    sampling_probability: Annotated[_Probability | None, _Passed] = Field(
        default=None,
        description=(
            "With which probability the producer kept this event, where it sent a sample (sampling.upstream)."
        ),
    )
    labels: Labels = Field(
        default_factory=dict, description="Short strings to group by: app, tenant, model, prompt_version, ..."
    )
