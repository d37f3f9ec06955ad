"""Validates `ingest.mapping`: event fields and JMESPath expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import TypeAdapter, ValidationError

from schemas import QAEvent
from schemas.base import MAX_LABEL_NAME_CHARS, FieldName
from streams.settings.problems import suggest

MAX_EXPRESSION_CHARS: Final = 200
"""Maximum characters of an expression in a message."""
LABEL: Final = "labels."
"""Prefix of a target that is a label."""
FIELD: Final = "fields."
"""Prefix of a target that is one of an event's named texts."""
_FIELD_NAME: Final = TypeAdapter(FieldName)


def mapping_problems(expressions: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the problems of a mapping: pairs of a target and a message.

    Args:
        expressions: Event field, `labels.<name>` or `fields.<name>`, to JMESPath expression.
    """
    problems = []
    for target, expression in expressions.items():
        what = _target_problem(target)
        if what is not None:
            problems.append((target, what))
        try:
            jmespath.compile(expression)
        except (JMESPathError, ValueError, RecursionError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            shown = expression[:MAX_EXPRESSION_CHARS]
            problems.append((target, f"is not valid JMESPath, {why} (got {shown!r}); correct the expression"))
    return problems


def _target_problem(target: str) -> str | None:
    if target in QAEvent.model_fields:
        return None
    if target.startswith(LABEL):
        length = len(target) - len(LABEL)
        if 1 <= length <= MAX_LABEL_NAME_CHARS:
            return None
        return f"a label's name must have 1 to {MAX_LABEL_NAME_CHARS} characters (got {length}); rename it"
    if target.startswith(FIELD):
        try:
            _FIELD_NAME.validate_python(target.removeprefix(FIELD))
        except ValidationError:
            return "a name in fields must be a letter, then letters, digits, _ and -, at most 64; rename it"
        return None
    return (
        "is not a field of an event; "
        f"{suggest(target, [*QAEvent.model_fields, 'labels.<name>', 'fields.<name>'])}"
    )
