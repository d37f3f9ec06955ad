"""What follows from the names of a span's attributes: its tables and the fields that it carries.

Spans of one instrumentation repeat the same names, so results are cached.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, get_args

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
"""Fields of `Family` that hold names of attributes, or (`_flat`) prefixes of names."""
MAX_LABEL_CHARS: Final = 64
_PRIVATE: Final = ("ls_", "LANGSMITH_", "lc_", "langgraph_", "langfuse_", "checkpoint_")
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
"""Not used as labels: they identify persons or conversations and have too many values."""


class Shape:
    """The tables that apply to a span, and the fields that it carries.

    Args:
        scope: The instrumentation.
        names: The names of the attributes.
    """

    def __init__(self, scope: str, names: frozenset[str]) -> None:
        first_parts = {name.partition(".")[0] for name in names}
        self.families: Final = tuple(
            family
            for family in FAMILIES
            if not first_parts.isdisjoint(family.marks)
            or any(scope == one or scope.startswith(f"{one}.") for one in family.scopes)
        )
        self.family: Final = next((one.name for one in self.families if one.name != "judgestream"), "")
        """The first family whose attributes it carries; empty for none."""
        self.labels: Final = [(*_labels(family, names),) for family in self.families]
        """By table, attributes that are labels with their names, and attributes that hold several labels."""
        self.kinds: Final = [
            (name, kinds) for family in self.families for name, kinds in family.kinds.items() if name in names
        ]
        """Attributes that determine the kind, with the kind of each value."""
        self.present: Final = _Present(self.families, names)
        """By fields, the names or prefixes that the span carries, by precedence."""
        self.fields: Final = frozenset(field for field in get_args(Field) if self.present[field,])
        """The fields that it carries."""


class _Present(dict[tuple[Field, ...], tuple[str, ...]]):
    """Worked out when they are asked for."""

    def __init__(self, families: tuple[Family, ...], names: frozenset[str]) -> None:
        super().__init__()
        self._families = families
        self._names = names

    def __missing__(self, fields: tuple[Field, ...]) -> tuple[str, ...]:
        found = self[fields] = tuple(
            name
            for family in self._families
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
def shape_of(scope: str, names: tuple[str, ...]) -> Shape:
    """Give the shape of a span, cached by the names in their order, which rarely varies."""
    return Shape(scope, frozenset(names))
