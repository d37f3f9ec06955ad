"""What the tables know of a span by the names of its attributes alone.

Spans of one instrumentation carry the same names again and again, so each answer is worked out once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

from streams.intake.reading.otlp.families.family import Family
from streams.intake.reading.otlp.families.precedence import FAMILIES

Field = Literal[
    "given",
    "gave",
    "heard",
    "said",
    "heard_flat",
    "said_flat",
    "system",
    "question",
    "answer",
    "context",
    "reference",
    "query",
    "documents",
    "documents_flat",
    "variables",
    "variables_flat",
    "tool_name",
    "tool_arguments",
    "tool_result",
    "called",
    "model",
    "conversation",
]
"""Fields of `Family` that name attributes, or (`_flat`) their beginnings."""
MAX_LABEL_CHARS: Final = 64
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


class Shape:
    """The tables to ask for a span, and what of theirs it carries.

    Args:
        scope: Its instrumentation.
        names: The names of its attributes.
    """

    def __init__(self, scope: str, names: frozenset[str]) -> None:
        first_parts = {name.partition(".")[0] for name in names}
        self.families: Final = tuple(
            family
            for family in FAMILIES
            if not first_parts.isdisjoint(family.marks)
            or any(scope == one or scope.startswith(f"{one}.") for one in family.scopes)
        )
        self.labels: Final = [(*_labels(family, names),) for family in self.families]
        """By table, attributes that are labels with the names of these, and those that hold several."""
        self.kinds: Final = [
            (name, kinds) for family in self.families for name, kinds in family.kinds.items() if name in names
        ]
        """Attributes that say of which kind it is, with their values' kinds."""
        self._names: Final = names
        self._present: Final[dict[tuple[Field, ...], tuple[str, ...]]] = {}

    def present(self, *fields: Field) -> tuple[str, ...]:
        """Give the names, or beginnings of names, that the span carries for some fields, by precedence."""
        found = self._present.get(fields)
        if found is None:
            found = self._present[fields] = tuple(
                name
                for family in self.families
                for field in fields
                for name in getattr(family, field)
                if (self._begins(name) if field.endswith("_flat") else name in self._names)
            )
        return found

    def _begins(self, beginning: str) -> bool:
        start = beginning if beginning.endswith(".") else f"{beginning}."
        return any(name.startswith(start) for name in self._names)


def is_label(name: str) -> bool:
    """Whether a label may have this name."""
    return 0 < len(name) <= MAX_LABEL_CHARS and not name.startswith(_PRIVATE) and name.lower() not in _PEOPLE


def _labels(family: Family, names: frozenset[str]) -> tuple[list[tuple[str, str]], list[str]]:
    found = [(name, label) for name, label in family.labels.items() if name in names]
    for prefix in family.label_prefixes:
        found += [(one, one[len(prefix) :]) for one in sorted(names) if one.startswith(prefix)]
    return [one for one in found if is_label(one[1])], [one for one in family.label_maps if one in names]


@lru_cache(maxsize=512)
def shape_of(scope: str, names: frozenset[str]) -> Shape:
    """Give the shape of a span."""
    return Shape(scope, names)
