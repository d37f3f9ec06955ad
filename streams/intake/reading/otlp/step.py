"""One span, read by the tables of its families into one form for all of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from schemas.result import RESULT_ATTRIBUTE
from streams.intake.reading.otlp.conversation import (
    Turn,
    answer_in,
    is_conversation,
    is_stripped,
    question_in,
    read_turns,
)
from streams.intake.reading.otlp.families import OWN, Field, Kind, is_label, shape_of
from streams.intake.reading.otlp.pages import Document, read_documents
from streams.intake.reading.otlp.span import Attributes, Span, SpanEvent
from streams.intake.reading.otlp.text import (
    KEYS,
    WORDS,
    as_text,
    is_cut,
    is_shown_object,
    listed,
    loaded,
    result_text,
    unflatten,
    unpacked,
)

ANSWERING: Final[frozenset[Kind]] = frozenset({"workflow", "agent", "model", "chain"})
MODELS: Final[frozenset[Kind]] = frozenset({"model", "agent"})
_SEARCHING: Final[frozenset[Kind]] = frozenset({"retrieval", "rerank"})
_SEARCH_WORDS: Final = re.compile("retriev|(?<!re)search|rerank|vector|knowledge|look_?up", re.IGNORECASE)
_REDACTED: Final = frozenset({"__REDACTED__", "[REDACTED]", "<redacted>", "[Scrubbed]"})
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_NOT_ANSWERING: Final = frozenset({"tool", "user", "system"})
_KIND_OF: Final[Mapping[Kind, Sequence[str]]] = WORDS["kinds"]


class ToolUse(NamedTuple):
    name: str
    arguments: str
    result: str


class Step:
    """One span, with the log records of its id among its events. Its parts are read when they are needed."""

    def __init__(self, span: Span) -> None:
        self.span = span
        details = [event.attributes for event in span.events if event.name == _DETAILS]
        self.attributes: Attributes = span.attributes
        if details:
            self.attributes = {
                name: one for given in (*details, span.attributes) for name, one in given.items()
            }
        self.shape = shape_of(span.scope, tuple(self.attributes))
        self.family = self.shape.family

    def first(self, *fields: Field) -> Any:
        for name in self.shape.present(*fields):
            value = self.attributes[name]
            if value is not None and value != "" and not (isinstance(value, str) and value in _REDACTED):
                return value
        return None

    def text(self, field: Field) -> str | None:
        """Read the first value of a field as text; None for none or an empty text."""
        return as_text(loaded(self.first(field))).strip() or None

    def _turns(self, whole: Field, flat: Field, role: str) -> list[Turn]:
        """Read the first conversation, in one attribute or over several."""
        for name in self.shape.present(whole, flat):
            turns = turns_of(self.attributes.get(name), role)
            turns = turns or turns_of(unflatten(self.attributes, name), role)
            if turns:
                return turns
        return []

    # Kind

    @cached_property
    def kind(self) -> Kind:
        """The kind of the span: as its attributes name it, else by attributes that only one kind has."""
        operation = self.attributes.get("gen_ai.operation.name")
        for name, kinds in self.shape.kinds:
            value = loaded(self.attributes[name])
            kind = _named_kind(value.lower(), kinds) if isinstance(value, str) else None
            # Traceloop marks a retriever's span as a task; the operation's name is more specific.
            if kind == "chain" and operation in ("vector_db_retrieve", "retrieval"):
                return "retrieval"
            if kind is not None:
                return "prompt" if kind == "chain" and "PromptTemplate" in self.span.name else kind
        return self._guessed_kind()

    def _guessed_kind(self) -> Kind:
        name, events = self.span.name, {event.name for event in self.span.events}
        if any(one.startswith("gen_ai.evaluation.") for one in (name, *self.attributes)):
            return "evaluation"
        for kind, marks in _KIND_OF.items():
            if any(mark in self.attributes for mark in marks):
                replied = self.first("said") is not None or not events.isdisjoint(KEYS["output_events"])
                other_operation = "gen_ai.operation.name" in self.attributes and not replied
                return "chain" if kind == "model" and other_operation else kind
        if name in KEYS["output_events"] or name in KEYS["input_events"]:
            return "model"
        return "chain" if self.shape.families and self.first("gave") is not None else "other"

    @property
    def is_ours(self) -> bool:
        """Whether a judgestream worker wrote it; such spans are not judged."""
        names = (self.span.scope.partition(".")[0], self.span.resource.get("service.name"))
        return OWN in names or RESULT_ATTRIBUTE in self.attributes

    @cached_property
    def lacks_content(self) -> bool:
        """Whether a model or agent ran without error and its output was not recorded, not even as empty."""
        if self.kind not in MODELS or self.span.error or self.said or self.answer is not None:
            return False
        output = self.first("said", "gave")
        return output is None or is_stripped(output)

    @cached_property
    def searches(self) -> bool:
        """Whether it retrieves documents, by its kind; a step by its name if its output is documents."""
        return self.kind in _SEARCHING or (self.kind == "chain" and is_search(self.span.name))

    # Messages

    @cached_property
    def _messages(self) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
        heard = self._turns("heard", "heard_flat", "user")
        said = self._turns("said", "said_flat", "assistant")
        in_events = bool(self.span.events or self.span.is_log) and not heard
        heard = heard or _turns_in_events(self.span, KEYS["input_events"], "user")
        said = said or _turns_in_events(self.span, KEYS["output_events"], "assistant")
        is_model = self.kind in MODELS
        if is_model:
            heard = heard or _as_turns(self.first("given"), "user", question_in)
        else:  # the input of an application's step is a structure, not a message
            heard = [turn for turn in heard if not turn.text.startswith("{")]
        if not said and not in_events:  # the whole conversation in one attribute
            heard, said = _split(heard, [turn.role != "assistant" for turn in heard])
        if is_model:
            said = said or _as_turns(self.first("gave"), "assistant", answer_in)
        if len(said) > 1 and any(turn.role == "user" for turn in said):  # the whole conversation
            heard, said = _split(said, [turn.role == "user" for turn in said])
        requested = listed(self.first("called"))
        if requested and not any(turn.tool_calls for turn in said):
            said = [*said, *read_turns([{"role": "assistant", "tool_calls": [*map(loaded, requested)]}])]
        if not any(turn.role == "system" for turn in heard):
            system = self.first("system")
            heard = heard if system is None else [*read_turns(system, "system"), *heard]
        return tuple(heard), tuple(said)

    @property
    def heard(self) -> tuple[Turn, ...]:
        return self._messages[0]

    @property
    def said(self) -> tuple[Turn, ...]:
        return self._messages[1]

    @cached_property
    def answer(self) -> str | None:
        """The text of the output; None for no text, or only tool calls."""
        stated = self.text("answer")
        if stated is not None:
            return stated
        if self.kind == "model":
            return spoken(self.said) or (None if waits_for_tools(self.said) else self._output())
        # An agent's result comes before the last message within it.
        return self._output() or spoken(self.said)

    def _output(self) -> str | None:
        return answer_in(self.first("gave"))

    @cached_property
    def asked(self) -> str | None:
        """The text of the input; a model's messages are not a question."""
        given = self.first("given")
        if self.kind == "model" or is_conversation(loaded(given)):
            return None
        return question_in(given)

    @cached_property
    def last_question(self) -> str | None:
        turns: Sequence[Turn] = self.heard
        if not turns and (given := self.first("given")) is not None:
            opened = loaded(given)
            turns = turns_of(given, "user") if isinstance(opened, str) or is_conversation(opened) else ()
        texts = [turn.text for turn in turns if turn.role == "user" and turn.text.strip()]
        return texts[-1] if texts else None

    @property
    def is_cut(self) -> bool:
        """Whether a limit on the length of attributes cut its messages, input or output."""
        return any(
            is_cut(self.attributes[name]) for name in self.shape.present("heard", "said", "given", "gave")
        )

    @property
    def reference(self) -> str | None:
        value = self.first("reference")
        return None if value is None else answer_in(value) or as_text(value)

    # Retrieval and tools

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        if self.kind not in _SEARCHING:
            opened = loaded(unpacked(self.first("gave"))) if self.searches else None
            return tuple(read_documents(opened)) if isinstance(opened, list | dict) else ()
        for family in self.shape.families:
            get = family.attributes.get
            listed = [unflatten(self.attributes, prefix) for prefix in get("documents_flat", ())]
            values = [self.attributes.get(name) for name in (*get("documents", ()), *get("gave", ()))]
            if documents := next(filter(None, map(read_documents, (*listed, *values))), None):
                return tuple(documents)
        return ()

    @cached_property
    def query(self) -> str | None:
        return question_in(self.first("query", "given")) if self.kind in _SEARCHING else None

    @cached_property
    def variables(self) -> dict[str, Any]:
        variables: dict[str, Any] = {}
        for name in self.shape.present("variables"):
            opened = loaded(self.attributes[name])
            variables |= opened if isinstance(opened, dict) else {}
        for prefix in self.shape.present("variables_flat"):
            names = [name for name in self.attributes if name.startswith(prefix)]
            variables |= {name[len(prefix) :]: self.attributes[name] for name in names}
        if self.kind == "prompt" and not variables:
            opened = loaded(self.first("given"))
            opened = opened.get("inputs", opened) if isinstance(opened, dict) else opened
            variables = opened if isinstance(opened, dict) else {}
        return variables

    @property
    def context_in_exchange(self) -> Any:
        if self.kind not in {"workflow", "agent", "chain"}:
            return None
        for field in ("given", "gave"):
            opened = unpacked(self.first(field))
            opened = opened.get("kwargs") or opened if isinstance(opened, dict) else None
            if isinstance(opened, dict) and (value := first_named(opened, KEYS["context"])) is not None:
                return value
        return None

    @cached_property
    def tool(self) -> ToolUse | None:
        if self.kind != "tool":
            return None
        name = self.text("tool_name") or self.span.name
        arguments = self.first("tool_arguments", "given")
        result = self.first("tool_result", "gave")
        return ToolUse(name, as_text(unpacked(arguments)).strip(), result_text(unpacked(result)).strip())

    @cached_property
    def labels(self) -> dict[str, str]:
        """By name; the first family with a label has precedence."""
        labels: dict[str, str] = {}
        for name, named in self.shape.labels:
            value = self.attributes[name]
            given = {named: value} if named else loaded(value)
            for label, value in given.items() if isinstance(given, dict) else ():
                opened = loaded(value)
                is_new = label not in labels and (named or is_label(label))
                if is_new and isinstance(opened, str | int | float) and opened != "":
                    labels[label] = str(opened).lower() if isinstance(opened, bool) else str(opened)
        return labels


def _named_kind(value: str, kinds: Mapping[str, Kind]) -> Kind | None:
    by_ending = (kind for end, kind in kinds.items() if end[0] == "*" and value.endswith(end[1:]))
    return kinds.get(value) or next(by_ending, None)


def first_named(values: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return the first value of these names, in any case."""
    lowered = {name.lower(): value for name, value in values.items()}
    return next((lowered[name] for name in names if lowered.get(name)), None)


def is_search(name: str) -> bool:
    return _SEARCH_WORDS.search(name) is not None


# Messages in attributes and events


def turns_of(value: Any, role: str) -> list[Turn]:
    """Read an attribute as a conversation; empty for one that is missing, redacted or no text."""
    if value is None or (isinstance(value, str) and value in _REDACTED):
        return []
    text = loaded(value) if isinstance(value, str) and value.startswith('"') else value
    return [] if isinstance(text, str) and is_shown_object(text) else read_turns(text, role)


def _turns_in_events(span: Span, names: tuple[str, ...], default_role: str) -> list[Turn]:
    """Read a span's events of these names; Azure and Semantic Kernel write messages whole as JSON."""
    turns: list[Turn] = []
    for event in (*((SpanEvent(span.name, span.attributes),) if span.is_log else ()), *span.events):
        if event.name not in names:
            continue
        body = loaded(event.attributes.get("body"))
        content = body if isinstance(body, dict) else event.attributes
        content = {"content": body} if isinstance(body, str) else content
        for key in ("gen_ai.prompt", "gen_ai.completion", "gen_ai.event.content"):
            content = event.attributes.get(key, content)
        content = loaded(content)
        if isinstance(content, dict):
            role = event.name.removeprefix("gen_ai.").removesuffix(".message")
            content = {**({"finish_reason": ""} if "message" in content else {"role": role}), **content}
        turns += read_turns(content, default_role)
    return turns


def _split(turns: list[Turn], before: Sequence[bool]) -> tuple[list[Turn], list[Turn]]:
    end = max((index + 1 for index, is_before in enumerate(before) if is_before), default=0)
    return turns[:end], turns[end:]


def _as_turns(value: Any, role: str, words: Callable[[Any], str | None]) -> list[Turn]:
    """Read the input or output of a step as a conversation; other structures become one message."""
    opened = loaded(value)
    if isinstance(opened, dict) and not is_conversation(opened) and opened.keys().isdisjoint(KEYS["request"]):
        text = words(opened)
        if text is not None or role == "user":  # a structure of its own may be an answer, but no question
            return [] if text is None else [Turn(role, text)]
    return turns_of(value, role)


def spoken(turns: Sequence[Turn]) -> str | None:
    """The assistant's last text; None where it has none, or waits for tools."""
    texts = [turn.text for turn in turns if turn.role not in _NOT_ANSWERING and turn.text.strip()]
    return texts[-1] if texts and not waits_for_tools(turns) else None


def waits_for_tools(turns: Sequence[Turn]) -> bool:
    """Whether the last message calls tools that have not answered: its words announce the calls."""
    said = [turn for turn in turns if turn.role not in _NOT_ANSWERING]
    answered = {turn.call_id for turn in turns if turn.role == "tool"}
    return bool(said) and any(call.call_id not in answered for call in said[-1].tool_calls)
