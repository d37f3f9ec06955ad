"""One span in one form for all families. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from streams.intake.reading.otlp.content.flattened import unflatten
from streams.intake.reading.otlp.content.json_text import as_text, is_cut, loaded
from streams.intake.reading.otlp.content.message import is_stripped
from streams.intake.reading.otlp.content.pages import Document, read_documents
from streams.intake.reading.otlp.content.said import CONTEXT_NAMES, QUESTION_NAMES, answer_in, question_in
from streams.intake.reading.otlp.content.tool_result import result_text, unpacked
from streams.intake.reading.otlp.content.turn import Turn
from streams.intake.reading.otlp.families.family import Family, Kind
from streams.intake.reading.otlp.families.judgestream import LAST_WORD, RESULT_ID
from streams.intake.reading.otlp.families.shape import Field, shape_of
from streams.intake.reading.otlp.lazy import lazy
from streams.intake.reading.otlp.span import Span
from streams.intake.reading.otlp.steps.events import found_documents, tool_events, with_details
from streams.intake.reading.otlp.steps.exchange import exchange, is_conversation, spoken, waits_for_tools
from streams.intake.reading.otlp.steps.kind import kind_of
from streams.intake.reading.otlp.steps.labels import labels_of
from streams.intake.reading.otlp.steps.tool import ToolUse
from streams.intake.reading.otlp.steps.values import Values, turns_of
from streams.intake.reading.otlp.steps.variables import variables_of

_ANSWERING: Final[frozenset[Kind]] = frozenset({"workflow", "agent", "model", "chain"})
_SEARCH_WORDS: Final = re.compile("retriev|(?<!re)search|rerank|vector|knowledge|look_?up", re.IGNORECASE)
_SEARCHING: Final[frozenset[Kind]] = frozenset({"retrieval", "rerank"})


class Step:
    """One span. Its parts are read when they are needed.

    Args:
        span: The span; log records of the same span id are among its events.
    """

    def __init__(self, span: Span) -> None:
        self.span = span
        self.attributes: Mapping[str, Any] = with_details(span)
        shape = shape_of(span.scope, tuple(self.attributes))
        self.families: tuple[Family, ...] = shape.families
        self.fields: frozenset[Field] = shape.fields
        self._values = Values(self.attributes, shape)

    # Kind

    @lazy
    def kind(self) -> Kind:
        """The kind of the span."""
        return kind_of(self.span, self._values)

    @property
    def family(self) -> str:
        """The first family whose attributes it has; empty for none."""
        return self._values.shape.family

    @property
    def is_ours(self) -> bool:
        """Whether a judgestream worker wrote it; such spans are not judged."""
        return (
            self.span.scope.partition(".")[0] == LAST_WORD
            or self.span.resource.get("service.name") == LAST_WORD
            or RESULT_ID in self.attributes
        )

    @property
    def may_answer(self) -> bool:
        """Whether the output of its kind can be the application's answer."""
        return self.kind in _ANSWERING

    @lazy
    def lacks_content(self) -> bool:
        """Whether a model or agent ran without an error and its output was not recorded.

        An empty answer counts as recorded.
        """
        return (
            self.kind in {"model", "agent"}
            and self.span.error is None
            and not self.said
            and self.answer is None
            and ((value := self._values.first("said", "gave")) is None or is_stripped(value))
        )

    @lazy
    def searches(self) -> bool:
        """Whether it retrieves documents, by its kind; a step by its name if its output is documents."""
        return self.kind in _SEARCHING or (self.kind == "chain" and is_search(self.span.name))

    # Messages

    @lazy
    def _messages(self) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
        return exchange(self.span, self._values, self.kind)

    @property
    def heard(self) -> tuple[Turn, ...]:
        """The messages to a model or agent."""
        return self._messages[0]

    @property
    def said(self) -> tuple[Turn, ...]:
        """The messages from it."""
        return self._messages[1]

    @lazy
    def answer(self) -> str | None:
        """The text of the output; None for no text, or only tool calls."""
        own = self._values.text("answer")
        if own is not None:
            return own
        if self.kind == "agent":
            # The agent's result comes before the last message within it.
            return self._gave() or spoken(self.said)
        if self.kind == "model":
            return spoken(self.said) or (None if waits_for_tools(self.said) else self._gave())
        return self._gave() or spoken(self.said)

    def _gave(self) -> str | None:
        value = self._values.first("gave")
        return None if value is None else answer_in(value)

    @lazy
    def asked(self) -> str | None:
        """The text of the input of an application's step.

        None for a model call, whose messages are not a question.
        """
        if self.kind == "model":
            return None
        value = self._values.first("given")
        opened = loaded(value)
        if isinstance(opened, dict | list) and is_conversation(opened):
            return None
        return None if value is None else question_in(value)

    @lazy
    def last_question(self) -> str | None:
        """The last message of a user."""
        turns: Sequence[Turn] = self.heard
        if not turns and (given := self._values.first("given")) is not None:
            opened = loaded(given)
            turns = turns_of(given, "user") if isinstance(opened, str) or is_conversation(opened) else ()
        spoken = [turn.text for turn in turns if turn.role == "user" and turn.text.strip()]
        return spoken[-1] if spoken else None

    @property
    def is_cut(self) -> bool:
        """Whether a limit on the length of attributes cut its messages, input or output."""
        names = self._values.shape.present["heard", "said", "given", "gave"]
        return any(is_cut(self.attributes[name]) for name in names)

    # Attributes that the application sets

    @property
    def question(self) -> str | None:
        """The question, as the application set it."""
        return self._values.text("question")

    @property
    def reference(self) -> str | None:
        """A known good answer."""
        value = self._values.first("reference")
        return None if value is None else answer_in(value) or as_text(value)

    @property
    def context(self) -> Any:
        """The context, as the application set it."""
        return self._values.first("context")

    # Retrieval and tools

    @lazy
    def documents(self) -> tuple[Document, ...]:
        """The documents that a retriever or reranker returned."""
        if not self.searches:
            return ()
        if self.kind not in _SEARCHING:
            opened = loaded(unpacked(self._values.first("gave")))
            return tuple(read_documents(opened)) if isinstance(opened, list | dict) else ()
        for family in self.families:
            for prefix in family.documents_flat:
                found = read_documents(_unwrapped(unflatten(self.attributes, prefix)))
                if found:
                    return tuple(found)
            for name in (*family.documents, *family.gave):
                found = read_documents(self.attributes.get(name))
                if found:
                    return tuple(found)
        return found_documents(self.span)

    @lazy
    def query(self) -> str | None:
        """The query of a retriever."""
        if self.kind not in _SEARCHING:
            return None
        value = self._values.first("query", "given")
        return None if value is None else question_in(value)

    @lazy
    def variables(self) -> Mapping[str, Any]:
        """The variables of a prompt's template."""
        return variables_of(self._values, self.kind)

    @property
    def asked_in_variables(self) -> str | None:
        """The question among the variables of a prompt's template."""
        if not self.variables:
            return None
        lowered = {name.lower(): value for name, value in self.variables.items()}
        named = next((lowered[name] for name in QUESTION_NAMES if lowered.get(name)), None)
        return None if named is None else question_in(named)

    @property
    def context_in_variables(self) -> Any:
        """The context among the variables of a prompt's template."""
        if not self.variables:
            return None
        lowered = {name.lower(): value for name, value in self.variables.items()}
        return next((lowered[name] for name in CONTEXT_NAMES if lowered.get(name)), None)

    @property
    def context_in_exchange(self) -> Any:
        """The context among what a step of the application was given, or gave back beside its answer."""
        if self.kind not in {"workflow", "agent", "chain"}:
            return None
        for field in ("given", "gave"):
            opened = unpacked(self._values.first(field))
            opened = opened.get("kwargs") or opened if isinstance(opened, dict) else None
            if isinstance(opened, dict):
                found = next((opened[name] for name in CONTEXT_NAMES if opened.get(name)), None)
                if found is not None:
                    return found
        return None

    @lazy
    def tool(self) -> ToolUse | None:
        """The tool that ran."""
        if self.kind != "tool":
            return None
        name = self._values.text("tool_name") or self.span.name
        arguments = self._values.first("tool_arguments", "given")
        result = self._values.first("tool_result", "gave")
        if arguments is None and result is None:
            arguments, result = tool_events(self.span)
        return ToolUse(name, as_text(unpacked(arguments)).strip(), result_text(unpacked(result)).strip())

    # Labels

    @property
    def model(self) -> str | None:
        """The model that answered, else the requested one."""
        return self._values.text("model")

    @property
    def conversation(self) -> str | None:
        """The conversation."""
        return self._values.text("conversation")

    @lazy
    def labels(self) -> dict[str, str]:
        """Labels such as tenant, prompt and agent."""
        return labels_of(self._values)


def is_search(name: str) -> bool:
    """Whether a step or tool of this name retrieves."""
    return _SEARCH_WORDS.search(name) is not None


def _unwrapped(items: list[Any]) -> list[Any]:
    return [
        item["document"] if isinstance(item, dict) and isinstance(item.get("document"), dict) else item
        for item in items
    ]
