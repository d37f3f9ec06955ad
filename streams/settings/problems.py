"""Turns validation errors into lines that name setting, limit, value and remedy."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from streams.settings.removed import removal

PROBLEMS = "judgestream_problems"
"""Error type of checks over several fields; its context contains (path within the model, text) pairs."""
MAX_VALUE_CHARS = 80
SECRET_NAMES = frozenset({"password", "api_key", "basic_auth"})
"""Fields whose contents no message shows. Names of variables are hidden too: users put secrets there."""

_RUN = re.compile(r"//|[^\s'\"/]+")
"""Start of an address's user part, with or without a scheme."""
MAX_READ_CHARS = 10_000
"""A longer value is not shown, only its length; so parsing and masking take bounded time."""

_LIMITS = {
    "greater_than": ("must be greater than {gt}", "raise it"),
    "greater_than_equal": ("must be at least {ge}", "raise it"),
    "less_than": ("must be less than {lt}", "lower it"),
    "less_than_equal": ("must be at most {le}", "lower it"),
    "string_too_short": ("must have at least {min_length} characters", "lengthen it"),
    "string_too_long": ("must have at most {max_length} characters", "shorten it"),
    "too_short": ("must have at least {min_length} entries", "add some"),
    "too_long": ("must have at most {max_length} entries", "drop some"),
    "string_pattern_mismatch": ("must match {pattern}", "use only what the pattern allows"),
    "finite_number": ("must be a finite number", "write a number"),
    "int_from_float": ("must be a whole number", "write it without a fraction"),
}
_KINDS = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "path": "a path",
}


def describe(value: object) -> str:
    """Describe a value briefly; of a list or mapping only the kind (it may contain a secret)."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, str | bytes) and len(value) > MAX_READ_CHARS:
        return f"{len(value)} characters"
    if isinstance(value, int) and value.bit_length() > MAX_VALUE_CHARS:
        return f"a number of {value.bit_length()} bits"  # Python cannot format very long ones
    text = _without_user(repr(value))
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}..."


def _without_user(text: str) -> str:
    """Mask user and password within an address, up to the last @."""
    end = text.rfind("@")
    if end < 0:
        return text
    for run in _RUN.finditer(text, 0, end):
        if run[0] == "//" or run[0].find(":", 1) > 0:
            return f"{text[: run.start()]}***{text[end:]}"
    return text


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name closest to a misspelt one, or list the known names."""
    names = list(known)
    close = difflib.get_close_matches(name[:MAX_VALUE_CHARS].lower(), names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"there are: {', '.join(names)}" if names else "remove it"


def dotted(path: Sequence[str | int]) -> str:
    """Return a path in dotted form."""
    return ".".join(str(part) for part in path)


def unwrap(annotation: Any) -> Any:
    """Strip `Annotated` and `| None` from an annotation."""
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
            continue
        if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
            rest = [part for part in typing.get_args(annotation) if part is not type(None)]
            if len(rest) == 1:
                annotation = rest[0]
                continue
        return annotation


def annotation_at(model: type[BaseModel], path: Sequence[str | int]) -> Any | None:
    """Return the annotation of the setting at a path; None if there is no such setting."""
    annotation: Any = model
    for part in path:
        annotation = unwrap(annotation)
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = annotation.model_fields.get(str(part))
            if field is None:
                return None
            annotation = field.annotation
        elif origin is dict:
            annotation = arguments[1]
        elif origin is tuple and isinstance(part, int):
            annotation = arguments[0]
        else:
            return None
    return unwrap(annotation)


def names_at(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """List the settings under a path."""
    annotation = annotation_at(model, path)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return list(annotation.model_fields)
    return []


def unknown(model: type[BaseModel], path: Sequence[str | int]) -> str:
    """Return the message for an unknown setting: why it was removed, or a suggestion."""
    reason = removal(path)
    if reason is not None:
        return f"{dotted(path)} was removed: {reason}"
    return f"{dotted(path)} is not a setting; {suggest(str(path[-1]), names_at(model, path[:-1]))}"


def explain(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return a validation error as one line per problem.

    Args:
        error: The validation error.
        model: The root of the settings tree.

    Returns:
        Lines of the form "<path>: <what> (got <value>); <remedy>", never with a secret's value.
    """
    lines: list[str] = []
    # `hide_input_in_errors` hides inputs in the error's text only; `errors()` still has them.
    for detail in error.errors(include_url=False):
        lines.extend(_lines(detail, model))
    return list(dict.fromkeys(lines))


def _lines(detail: ErrorDetails, model: type[BaseModel]) -> list[str]:
    kind, context = detail["type"], detail.get("ctx", {})
    path = [part for part in detail["loc"] if part != "[key]"]
    where = dotted(path)
    if kind == PROBLEMS:
        return [
            f"{dotted([*path, *([sub] if sub else [])])}: {what}".removeprefix(": ")
            for sub, what in context["problems"]
        ]
    if kind == "extra_forbidden":
        return [unknown(model, path)]
    if kind == "missing":
        return [f"{where}: is required (got nothing); add it"]
    what, remedy = _explain_kind(detail)
    # A text given instead of a section may be a password.
    no_section = isinstance(detail["input"], str) and kind.startswith(("model_", "dict_", "tuple_", "list_"))
    hidden = no_section or any(part in SECRET_NAMES or str(part).endswith("_env") for part in path)
    got = "a value that is not shown" if hidden else describe(detail["input"])
    return [f"{where or 'settings'}: {what} (got {got}); {remedy}"]


def _explain_kind(detail: ErrorDetails) -> tuple[str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _LIMITS:
        what, remedy = _LIMITS[kind]
        return what.format_map(context), remedy
    if kind == "literal_error":
        choices = str(context["expected"])
        names = [name.strip("' ") for name in choices.replace(" or ", ", ").split(",")]
        return f"must be one of {', '.join(names)}", suggest(
            describe(detail["input"]).strip("'"), names
        ).replace(f"there are: {', '.join(names)}", "choose one of them")
    if kind == "value_error":
        what, _, remedy = str(context["error"]).partition("; ")
        return what, remedy or "correct it"
    stem = kind.partition("_")[0]
    if stem in _KINDS and kind.endswith(("_type", "_parsing", "_size")):
        return f"must be {_KINDS[stem]}", f"write {_KINDS[stem]}"
    return detail["msg"][:1].lower() + detail["msg"][1:], "correct it"
