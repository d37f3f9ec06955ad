"""One span, read by the tables of its families into one form for all of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from schemas.result import RESULT_ATTRIBUTE
from streams.intake.reading.otlp.conversation import Turn, is_stripped
from streams.intake.reading.otlp.exchange import (
    INPUT_EVENTS,
    OUTPUT_EVENTS,
    Values,
    answer_in,
    exchange,
    is_conversation,
    question_in,
    spoken,
    turns_of,
    waits_for_tools,
)
from streams.intake.reading.otlp.families import OWN, Kind, is_label
from streams.intake.reading.otlp.pages import Document, read_documents
from streams.intake.reading.otlp.text import (
    KEYS,
    WORDS,
    as_text,
    is_cut,
    loaded,
    result_text,
    unflatten,
    unpacked,
)

ANSWERING: Final[frozenset[Kind]] = frozenset({"workflow", "agent", "model", "chain"})
_SEARCHING: Final[frozenset[Kind]] = frozenset({"retrieval", "rerank"})
_SEARCH_WORDS: Final = re.compile("retriev|(?<!re)search|rerank|vector|knowledge|look_?up", re.IGNORECASE)
_KIND_OF: Final[Mapping[Kind, Sequence[str]]] = WORDS["kinds"]


class ToolUse(NamedTuple):
    """A tool that ran."""

    name: str
    arguments: str
    result: str


class Step(Values):
    """One span, with the log records of its id among its events. Its parts are read when they are needed."""

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
                replied = self.first("said") is not None or not events.isdisjoint(OUTPUT_EVENTS)
                other_operation = "gen_ai.operation.name" in self.attributes and not replied
                return "chain" if kind == "model" and other_operation else kind
        if name in OUTPUT_EVENTS or name in INPUT_EVENTS:
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
        if (
            self.kind not in {"model", "agent"}
            or self.span.error is not None
            or self.said
            or self.answer is not None
        ):
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
        return exchange(self, self.kind)

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
        return self._output() or spoken(
            self.said
        )  # an agent's result comes before the last message within it

    def _output(self) -> str | None:
        return answer_in(self.first("gave"))

    @cached_property
    def asked(self) -> str | None:
        """The text of the input of an application's step; a model's messages are not a question."""
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
            listed = [unflatten(self.attributes, prefix) for prefix in family.fields["documents_flat"]]
            values = [
                self.attributes.get(name) for name in (*family.fields["documents"], *family.fields["gave"])
            ]
            documents = next(filter(None, map(read_documents, (*listed, *values))), None)
            if documents:
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
        """Labels such as tenant, prompt and agent; the first family with a label has precedence."""
        labels: dict[str, str] = {}
        for named, maps in self.shape.labels:
            pairs: list[tuple[str, Any]] = [(label, self.attributes[name]) for name, label in named]
            for name in maps:
                opened = loaded(self.attributes[name])
                if isinstance(opened, dict):
                    pairs += [(label, value) for label, value in opened.items() if is_label(label)]
            for label, value in pairs:
                opened = loaded(value)
                if label not in labels and isinstance(opened, str | int | float) and opened != "":
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
    """Whether a step or tool of this name retrieves."""
    return _SEARCH_WORDS.search(name) is not None
