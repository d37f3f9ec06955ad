"""Turns validation errors into lines that name setting, limit, value and remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from judge.text.plain_yaml import read_yaml
from streams.settings.base import NO_SOURCE, PROBLEMS, Secret
from streams.settings.walk import Path, dotted, names_at, section_of, suggest, type_at

MAX_VALUE_CHARS = 80
MAX_READ_CHARS = 10_000
"""A longer value is not shown, only its length; so parsing and masking take bounded time."""
_RUN = re.compile(r"//|[^\s'\"/]+")
"""Start of an address's user part, with or without a scheme."""

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


def unknown(model: type[BaseModel], path: Sequence[str | int]) -> str:
    """Return the message for an unknown setting: why it was removed, or a suggestion."""
    reason = removal(path)
    if reason is not None:
        return f"{dotted(path)} was removed: {reason}"
    names = names_at(model, path[:-1])
    if path[-1] in names:
        return f"{dotted(path)} is not a setting of this kind; remove it"
    return f"{dotted(path)} is not a setting; {suggest(str(path[-1]), names)}"


def explain(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return a validation error as lines "<path>: <what> (got <value>); <remedy>", never with a secret."""
    lines: list[str] = []
    # `hide_input_in_errors` hides inputs in the error's text only; `errors()` still has them.
    for detail in error.errors(include_url=False):
        lines.extend(_lines(detail, model))
    return list(dict.fromkeys(lines))


def _lines(detail: ErrorDetails, model: type[BaseModel]) -> list[str]:
    kind, context = detail["type"], detail.get("ctx", {})
    path = [part for part in detail["loc"] if part != "[key]"]
    where = dotted(path)
    if len(path) > 1 and section_of(type_at(model, path[:-1])) is Secret:  # its source, such as password_env
        where = f"{dotted(path[:-1])}_{path[-1]}"
    of_secret = section_of(type_at(model, path)) is Secret
    if of_secret and kind in {PROBLEMS, "missing"}:
        texts = [NO_SOURCE] if kind == "missing" else [what for _, what in context["problems"]]
        return [f"{where}: {what.replace('NAME', str(path[-1]))}" for what in texts]
    if kind == PROBLEMS:
        return [
            f"{dotted([*path, *([inner] if inner else [])])}: {what}".removeprefix(": ")
            for inner, what in context["problems"]
        ]
    if kind == "extra_forbidden":
        return [unknown(model, path)]
    if kind == "missing":
        return [f"{where}: is required (got nothing); add it"]
    what, remedy = _explain_kind(detail)
    got = "a value that is not shown" if _is_hidden(detail, model, path) else describe(detail["input"])
    return [f"{where or 'settings'}: {what} (got {got}); {remedy}"]


def _is_hidden(detail: ErrorDetails, model: type[BaseModel], path: Sequence[str | int]) -> bool:
    """Return whether a value belongs to a secret or a login, or is a text where a section belongs."""
    if path and path[-1] == "username":  # people write user:password there
        return True
    if isinstance(detail["input"], str) and detail["type"].startswith(("model_", "dict_", "tuple_", "list_")):
        return True
    return any(section_of(type_at(model, path[:end])) is Secret for end in range(1, len(path) + 1))


def _explain_kind(detail: ErrorDetails) -> tuple[str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _LIMITS:
        what, remedy = _LIMITS[kind]
        return what.format_map(context), remedy
    if kind == "literal_error":
        choices = str(context["expected"]).replace(" or ", ", ").split(",")
        names = [name.strip("' ") for name in choices]
        remedy = suggest(describe(detail["input"]).strip("'"), names)
        is_close = remedy.startswith("did you mean")
        return f"must be one of {', '.join(names)}", remedy if is_close else "choose one of them"
    if kind == "value_error":
        what, _, remedy = str(context["error"]).partition("; ")
        return what, remedy or "correct it"
    stem = kind.partition("_")[0]
    if stem in _KINDS and kind.endswith(("_type", "_parsing", "_size")):
        return f"must be {_KINDS[stem]}", f"write {_KINDS[stem]}"
    return detail["msg"][:1].lower() + detail["msg"][1:], "correct it"


def without_problems(document: Any, error: ValidationError) -> tuple[str, ...]:
    """Remove the invalid settings from a document; return the last names of what was removed."""
    removed: list[str] = []
    for detail in error.errors(include_url=False):
        inner = [path.split(".") for path, _ in detail.get("ctx", {}).get("problems", ())] or [[]]
        for path in inner:
            removed += _remove(document, [*detail["loc"], *path])
    return tuple(removed)


def _remove(document: Any, path: Sequence[str | int]) -> list[str]:
    """Remove the deepest named value on a path, and the mappings that this empties."""
    holders: list[tuple[dict[str, Any], str]] = []
    for part in path:
        if isinstance(document, dict) and part in document:
            holders.append((document, str(part)))
        elif not (isinstance(document, list) and isinstance(part, int) and part < len(document)):
            break
        document = document[part]
    names = []
    for holder, name in reversed(holders):
        holder.pop(name, None)
        names.append(name)
        if holder:
            break
    return names or [str(path[-1] if path else "settings")]


@dataclass(frozen=True, slots=True)
class Renamed:
    """A setting that is taken by its old name from the version `since` on, and refused from `ends` on."""

    old: str
    new: str
    since: str
    ends: str

    @property
    def works(self) -> bool:
        now, end = (tuple(map(int, one.split(".")[:2])) for one in (version("judgestream"), self.ends))
        return now < end

    def new_path(self, path: Sequence[str | int]) -> Path | None:
        """Return the new path of what is at the old path, or below it; None for any other."""
        old, new = self.old.split("."), self.new.split(".")
        if not _begins(path, old):
            return None
        names = (name for part, name in zip(old, path, strict=False) if part == "*")
        return *(next(names) if part == "*" else part for part in new), *path[len(old) :]

    def warning(self, old: str, new: str) -> str:
        return f"DEPRECATED: {old} is called {new} since {self.since}; rename it before {self.ends}"


def removal(path: Sequence[str | int]) -> str | None:
    """Return the reason and remedy of the removed setting at a path or above it, if there is one."""
    for pattern, row in sorted(former_settings().items(), key=lambda one: -one[0].count(".")):
        if _begins(path, pattern.split(".")):
            return f"set {dotted(row.new_path(path) or ())}" if isinstance(row, Renamed) else row
    return None


def _begins(path: Sequence[str | int], pattern: Sequence[str]) -> bool:
    pairs = zip(pattern, path, strict=False)
    return len(path) >= len(pattern) and all(part in ("*", str(given)) for part, given in pairs)


def renamed_settings() -> list[Renamed]:
    return [row for row in former_settings().values() if isinstance(row, Renamed) and row.works]


@cache
def former_settings() -> Mapping[str, str | Renamed]:
    text = resources.files("streams.settings").joinpath("removed.yaml").read_text(encoding="utf-8")
    return {old: row if isinstance(row, str) else Renamed(old, **row) for old, row in read_yaml(text).items()}
