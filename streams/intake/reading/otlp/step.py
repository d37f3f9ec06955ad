"""What one span says, in words that are the same for all families. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from streams.intake.reading.otlp.families import FAMILIES, LAST_WORD, Family, Kind
from streams.intake.reading.otlp.lazy import lazy
from streams.intake.reading.otlp.pages import Document, read_documents
from streams.intake.reading.otlp.said import CONTEXT_NAMES, QUESTION_NAMES, answer_in, question_in
from streams.intake.reading.otlp.span import Span, SpanEvent
from streams.intake.reading.otlp.turns import ToolCall, Turn, as_text, loaded, read_turns, unflatten

_REDACTED: Final = frozenset({"__REDACTED__", "[REDACTED]", "<redacted>", "[Scrubbed]"})
"""What instrumentations write in place of content that they may not record."""
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_EVALUATION: Final = "gen_ai.evaluation.result"
_SAID_EVENTS: Final = ("gen_ai.choice", "gen_ai.content.completion", "gen_ai.assistant.reply")
_HEARD_EVENTS: Final = (
    "gen_ai.system.message",
    "gen_ai.user.message",
    "gen_ai.assistant.message",
    "gen_ai.tool.message",
    "gen_ai.content.prompt",
)
_FOUND_EVENT: Final = "db.query.result"
_FOUND_TEXT: Final = "db.query.result.document"
_ANSWERING: Final[frozenset[Kind]] = frozenset({"workflow", "agent", "model", "chain"})
_SEARCH_WORDS: Final = ("retriev", "search", "rerank", "vector", "knowledge")
_SEARCHING: Final[frozenset[Kind]] = frozenset({"retrieval", "rerank"})

_MAX_UNPACKED: Final = 5
_CONVERSATIONS: Final = (
    "messages",
    "contents",
    "role",
    "choices",
    "generations",
    "candidates",
    "parts",
    "lc",
    "output",
)
_MARKS: Final[tuple[tuple[Kind, frozenset[str]], ...]] = (
    ("tool", frozenset({"gen_ai.tool.name", "tool_response"})),
    ("agent", frozenset({"final_result", "agent_name", "all_messages_events"})),
    (
        "model",
        frozenset(
            {
                "gen_ai.request.model",
                "gen_ai.response.model",
                "gen_ai.system",
                "gen_ai.output.messages",
                "gen_ai.completion.0.content",
            }
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that ran."""

    name: str
    arguments: str
    result: str


class Step:
    """One span, read. Each part is read when it is asked for, and once.

    Args:
        span: The span; log records of the same span id are among its events.
    """

    def __init__(self, span: Span) -> None:
        self.span = span
        self.attributes: Mapping[str, Any] = _with_details(span)
        first_parts = frozenset([name.partition(".")[0] for name in self.attributes])
        self.families: tuple[Family, ...] = _families_of(span.scope, first_parts)

    # One value of the tables

    def _first(self, names: Callable[[Family], Iterable[str]]) -> Any:
        for family in self.families:
            for name in names(family):
                value = self.attributes.get(name)
                if value is not None and value != "" and not (isinstance(value, str) and value in _REDACTED):
                    return value
        return None

    def _text(self, names: Callable[[Family], Iterable[str]]) -> str | None:
        value = loaded(self._first(names))
        return None if value is None else as_text(value).strip() or None

    # What it is

    @lazy
    def kind(self) -> Kind:
        """What the span stands for."""
        for family in self.families:
            for name, kinds in family.kinds.items():
                value = loaded(self.attributes.get(name))
                kind = kinds.get(value.lower()) if isinstance(value, str) else None
                if kind is not None:
                    return self._refined(kind)
        return self._guessed()

    def _refined(self, kind: Kind) -> Kind:
        # Traceloop calls a retriever's span a task, and says what it does beside it.
        operation = self.attributes.get("gen_ai.operation.name")
        if kind == "chain" and operation in ("vector_db_retrieve", "retrieval"):
            return "retrieval"
        if kind == "chain" and "PromptTemplate" in self.span.name:
            return "prompt"
        return kind

    def _guessed(self) -> Kind:
        """Tell the kind by what only spans of that kind carry."""
        names, own = self.attributes.keys(), self.span.name
        if own == _EVALUATION or any(name.startswith("gen_ai.evaluation.") for name in names):
            return "evaluation"
        for kind, marks in _MARKS:
            if not names.isdisjoint(marks):
                return kind
        if own in _SAID_EVENTS or own in _HEARD_EVENTS:
            return "model"
        if any(event.name == _FOUND_EVENT for event in self.span.events):
            return "retrieval"
        return "chain" if self.families and self._first(lambda family: family.gave) is not None else "other"

    @property
    def family(self) -> str:
        """The first family whose attributes it carries; empty for none."""
        named = [family.name for family in self.families if family.name != "judgestream"]
        return named[0] if named else ""

    @lazy
    def is_ours(self) -> bool:
        """Whether it is a span or log record of a judgestream worker, whose judging nobody judges."""
        scope, service = self.span.scope, self.span.resource.get("service.name")
        return (
            scope == LAST_WORD
            or scope.startswith(f"{LAST_WORD}.")
            or service == LAST_WORD
            or "judgestream.result_id" in self.attributes
        )

    @property
    def may_answer(self) -> bool:
        """Whether it is of a kind whose output can be the application's answer."""
        return self.kind in _ANSWERING

    @lazy
    def lacks_content(self) -> bool:
        """Whether a model or agent ran here without an error, and what it said was not recorded."""
        return (
            self.kind in {"model", "agent"}
            and self.span.error is None
            and not self.said
            and self.answer is None
        )

    @lazy
    def searches(self) -> bool:
        """Whether it retrieves: by its kind, or a step or tool by its name (and then its output has to be documents)."""
        if self.kind not in {"chain", "tool"}:
            return self.kind in _SEARCHING
        named = self.span.name.lower()
        if self.kind == "tool":
            named += (self._text(lambda family: family.tool_name) or "").lower()
        return any(word in named for word in _SEARCH_WORDS)

    # What was said

    @lazy
    def _messages(self) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
        heard = self._turns(lambda family: family.heard, lambda family: family.heard_flat, "user")
        said = self._turns(lambda family: family.said, lambda family: family.said_flat, "assistant")
        heard = heard or list(_event_turns(self.span, _HEARD_EVENTS, "user"))
        said = said or list(_event_turns(self.span, _SAID_EVENTS, "assistant"))
        tells = self.kind in {"model", "agent"}
        if tells:
            heard = heard or _told(self._first(lambda family: family.given), "user", question_in)
        if not said:  # the whole conversation in one attribute
            cut = len(heard)
            while cut and heard[cut - 1].role == "assistant":
                cut -= 1
            heard, said = heard[:cut], heard[cut:]
        if tells:
            said = said or _told(self._first(lambda family: family.gave), "assistant", answer_in)
        called = [
            call for item in _listed(self._first(lambda family: family.called)) if (call := _called(item))
        ]
        if called and not any(turn.tool_calls for turn in said):
            said = [*said, Turn("assistant", "", tuple(called))]
        system = self._first(lambda family: family.system)
        if system is not None and not any(turn.role == "system" for turn in heard):
            heard = [*read_turns(system, "system"), *heard]
        return tuple(heard), tuple(said)

    def _turns(
        self, whole: Callable[[Family], Iterable[str]], flat: Callable[[Family], Iterable[str]], role: str
    ) -> list[Turn]:
        for family in self.families:
            for name in whole(family):
                found = _turns_of(self.attributes.get(name), role)
                if found:
                    return found
            for prefix in flat(family):
                found = _turns_of(unflatten(self.attributes, prefix), role)
                if found:
                    return found
        return []

    @property
    def heard(self) -> tuple[Turn, ...]:
        """The messages that a model or agent was given."""
        return self._messages[0]

    @property
    def said(self) -> tuple[Turn, ...]:
        """The messages that it gave back."""
        return self._messages[1]

    @lazy
    def answer(self) -> str | None:
        """The words that came out; None where there are none, or only calls of tools."""
        own = self._text(lambda family: family.answer)
        if own is not None:
            return own
        if self.kind == "agent":
            # What the agent says of its result, rather than the last message within it.
            return self._gave() or _spoken(self.said)
        if self.kind == "model":
            return _spoken(self.said) or self._gave()
        return self._gave() or _spoken(self.said)

    def _gave(self) -> str | None:
        value = self._first(lambda family: family.gave)
        return None if value is None else answer_in(value)

    @lazy
    def asked(self) -> str | None:
        """The words that went into a step of the application; for a model's call None, as messages are no question."""
        if self.kind == "model":
            return None
        value = self._first(lambda family: family.given)
        opened = loaded(value)
        if isinstance(opened, dict | list) and _is_conversation(opened):
            return None
        return None if value is None else question_in(value)

    @lazy
    def last_question(self) -> str | None:
        """The last message of a user."""
        turns = self.heard or _turns_of(self._first(lambda family: family.given), "user")
        spoken = [turn.text for turn in turns if turn.role == "user" and turn.text.strip()]
        return spoken[-1] if spoken else None

    # What the application says outright

    @lazy
    def question(self) -> str | None:
        """The question, as the application set it."""
        return self._text(lambda family: family.question)

    @lazy
    def reference(self) -> str | None:
        """A known good answer."""
        value = self._first(lambda family: family.reference)
        return None if value is None else answer_in(value) or as_text(value)

    @lazy
    def context(self) -> Any:
        """The context, as the application set it."""
        return self._first(lambda family: family.context)

    # What was found

    @lazy
    def documents(self) -> tuple[Document, ...]:
        """The documents that a retriever or reranker gave back."""
        if not self.searches:
            return ()
        if self.kind not in _SEARCHING:
            opened = loaded(_unpacked(self._first(lambda family: (*family.tool_result, *family.gave))))
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
        return tuple(
            Document(text, str(event.attributes.get("db.query.result.id", "")))
            for event in self.span.events
            if event.name == _FOUND_EVENT and isinstance(text := event.attributes.get(_FOUND_TEXT), str)
        )

    @lazy
    def query(self) -> str | None:
        """What was searched for."""
        if self.kind not in _SEARCHING:
            return None
        value = self._first(lambda family: (*family.query, *family.given))
        return None if value is None else question_in(value)

    @lazy
    def variables(self) -> Mapping[str, Any]:
        """The variables of a prompt's template."""
        found: dict[str, Any] = {}
        for family in self.families:
            for name in family.variables:
                opened = loaded(self.attributes.get(name))
                if isinstance(opened, dict):
                    found |= {str(key): value for key, value in opened.items()}
            for prefix in family.variables_flat:
                found |= {
                    name[len(prefix) :]: value
                    for name, value in self.attributes.items()
                    if name.startswith(prefix)
                }
        if self.kind == "prompt" and not found:
            opened = loaded(self._first(lambda family: family.given))
            if isinstance(opened, dict) and isinstance(opened.get("inputs"), dict):
                opened = opened["inputs"]
            if isinstance(opened, dict):
                found = {str(key): value for key, value in opened.items()}
        return found

    @property
    def asked_in_variables(self) -> str | None:
        """The question among the variables of a prompt's template."""
        lowered = {name.lower(): value for name, value in self.variables.items()}
        named = next((lowered[name] for name in QUESTION_NAMES if lowered.get(name)), None)
        return None if named is None else question_in(named)

    @property
    def context_in_variables(self) -> Any:
        """The context among the variables of a prompt's template."""
        lowered = {name.lower(): value for name, value in self.variables.items()}
        return next((lowered[name] for name in CONTEXT_NAMES if lowered.get(name)), None)

    @lazy
    def tool(self) -> ToolUse | None:
        """The tool that ran."""
        if self.kind != "tool":
            return None
        name = self._text(lambda family: family.tool_name) or self.span.name
        return ToolUse(
            name,
            as_text(_unpacked(self._first(lambda family: (*family.tool_arguments, *family.given)))).strip(),
            as_text(_unpacked(self._first(lambda family: (*family.tool_result, *family.gave)))).strip(),
        )

    # Whose it is

    @lazy
    def model(self) -> str | None:
        """The model that answered, or else the one that was asked."""
        return self._text(lambda family: family.model)

    @lazy
    def conversation(self) -> str | None:
        """The conversation."""
        return self._text(lambda family: family.conversation)

    @lazy
    def labels(self) -> dict[str, str]:
        """What it says of tenant, prompt, agent and the like."""
        found: dict[str, str] = {}
        for family in self.families:
            pairs = [(label, self.attributes.get(name)) for name, label in family.labels.items()]
            for name in family.label_maps:
                opened = loaded(self.attributes.get(name))
                pairs += list(opened.items()) if isinstance(opened, dict) else []
            prefixes = family.label_prefixes
            if prefixes:
                pairs += [
                    (name[len(next(one for one in prefixes if name.startswith(one))) :], value)
                    for name, value in self.attributes.items()
                    if name.startswith(prefixes)
                ]
            for label, value in pairs:
                text = _label(str(label), value)
                if text is not None:
                    found.setdefault(str(label), text)
        return found


_PRIVATE: Final = ("ls_", "lc_", "langgraph_", "langfuse_", "checkpoint_")
_PEOPLE: Final = frozenset(
    {
        "user",
        "user_id",
        "userid",
        "session_id",
        "sessionid",
        "thread_id",
        "conversation_id",
        "chat_id",
        "email",
    }
)
"""No labels: each names a person or a conversation, and has as many values."""


def _label(name: str, value: Any) -> str | None:
    opened = loaded(value)
    if not name or name.startswith(_PRIVATE) or name.lower() in _PEOPLE or len(name) > 64:
        return None
    if isinstance(opened, bool):
        return "true" if opened else "false"
    return str(opened) if isinstance(opened, str | int | float) and opened != "" else None


@lru_cache(maxsize=1024)
def _families_of(scope: str, first_parts: frozenset[str]) -> tuple[Family, ...]:
    """The tables to ask for a span, by its instrumentation and the first parts of its attributes' names."""
    return tuple(
        family
        for family in FAMILIES
        if not first_parts.isdisjoint(family.marks)
        or any(scope == one or scope.startswith(f"{one}.") for one in family.scopes)
    )


def _with_details(span: Span) -> Mapping[str, Any]:
    details = [event.attributes for event in span.events if event.name == _DETAILS]
    merged: dict[str, Any] = {}
    for attributes in details:
        merged |= attributes
    return {**merged, **span.attributes} if merged else span.attributes


def _event_turns(span: Span, names: tuple[str, ...], role: str) -> Iterable[Turn]:
    own = [SpanEvent(span.name, span.attributes)] if span.is_log and span.name in names else []
    for event in (*own, *span.events):
        if event.name not in names:
            continue
        body = event.attributes.get("body")
        content: Any = body if isinstance(body, dict) else event.attributes
        for key in ("gen_ai.prompt", "gen_ai.completion"):
            content = event.attributes.get(key, content)
        if isinstance(content, dict):
            if "message" in content:
                content = {"finish_reason": "", **content}
            elif "role" not in content:
                content = {**content, "role": event.name.removeprefix("gen_ai.").removesuffix(".message")}
        yield from read_turns(content, role)


def _turns_of(value: Any, role: str) -> list[Turn]:
    if value is None or (isinstance(value, str) and value in _REDACTED):
        return []
    return read_turns(value, role)


def _unpacked(value: Any, depth: int = 0) -> Any:
    """Take what a tool was given, or gave, out of what LangChain's callbacks and messages put around it."""
    opened = loaded(value)
    if not isinstance(opened, dict) or depth > _MAX_UNPACKED:
        return opened
    if "lc" in opened and isinstance(opened.get("kwargs"), dict):
        return _unpacked(opened["kwargs"].get("content"), depth + 1)
    if "metadata" in opened or "tags" in opened or opened.keys() <= {"output", "kwargs"}:
        for name in ("inputs", "output", "outputs"):
            if name in opened:
                return _unpacked(opened[name], depth + 1)
    return opened


def _told(value: Any, role: str, words: Callable[[Any], str | None]) -> list[Turn]:
    """Read the input or output of a step as a conversation: what is none is its words."""
    opened = loaded(value)
    if isinstance(opened, dict) and not _is_conversation(opened) and "args" not in opened:
        text = words(opened)
        if text is not None:
            return [Turn(role, text)]
    return _turns_of(value, role)


def _spoken(turns: Iterable[Turn]) -> str | None:
    """The words of the first answer (the others are alternatives); several messages in a row count as one."""
    texts = [turn.text for turn in turns if turn.role not in {"tool", "user", "system"} and turn.text.strip()]
    return texts[-1] if texts else None


def _is_conversation(value: Any) -> bool:
    if isinstance(value, dict):
        return any(name in value for name in _CONVERSATIONS)
    return bool(value) and isinstance(value[0], dict | list) and not _has_words(value[0])


def _has_words(value: Any) -> bool:
    return isinstance(value, dict) and any(name in value for name in QUESTION_NAMES[:7])


def _listed(value: Any) -> list[Any]:
    opened = loaded(value)
    return opened if isinstance(opened, list) else []


def _called(item: Any) -> ToolCall | None:
    turns = read_turns([{"role": "assistant", "tool_calls": [loaded(item)]}])
    return turns[0].tool_calls[0] if turns and turns[0].tool_calls else None


def _unwrapped(items: list[Any]) -> list[Any]:
    return [
        item["document"] if isinstance(item, dict) and isinstance(item.get("document"), dict) else item
        for item in items
    ]
