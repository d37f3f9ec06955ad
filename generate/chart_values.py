"""Parse a chart's values.yaml with its comments.

A comment with `# --` describes the key below it; `# ==` starts a section. Other comments are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

_DESCRIPTION: Final = "# --"
_SECTION: Final = "# =="


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a chart.

    Args:
        path: Dotted path.
        default: Its default as compact JSON; None if its parts are described singly.
        description: The comment in one line.
        section: Title of its section.
    """

    path: str
    default: str | None
    description: str
    section: str


class UndescribedError(ValueError):
    """Values lack a description; the message names them."""


def read_values(text: str) -> list[Value]:
    """Return all values in file order.

    Args:
        text: The values file.

    Raises:
        UndescribedError: Neither a value nor a mapping that contains it has a description.
    """
    lines = text.splitlines()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise UndescribedError("values.yaml must be a mapping")
    bare: list[str] = []
    values = list(_walk(root, (), lines, bare, described=False))
    if bare:
        raise UndescribedError(f"without a description ({_DESCRIPTION} ...): {', '.join(bare)}")
    return values


def _walk(
    node: yaml.MappingNode, above: tuple[str, ...], lines: Sequence[str], bare: list[str], *, described: bool
) -> Iterator[Value]:
    for key, value in node.value:
        path = (*above, key.value)
        description = _description(lines, key.start_mark.line)
        inner: list[str] = []
        known = described or description is not None
        parts: list[Value] = []
        if isinstance(value, yaml.MappingNode):
            parts = list(_walk(value, path, lines, inner, described=known))
        if description is not None:
            default = None if parts else _compact(value)
            yield Value(".".join(path), default, description, _section(lines, key.start_mark.line))
        elif not (described or parts):
            bare.append(".".join(path))
        bare += inner
        yield from parts


def _description(lines: Sequence[str], line: int) -> str | None:
    """Return the comment directly above a key, from the last `# --` on."""
    words: list[str] = []
    for above in reversed(lines[:line]):
        comment = above.strip()
        if not comment.startswith("#"):
            return None
        if comment.startswith(_DESCRIPTION):
            return " ".join([comment.removeprefix(_DESCRIPTION).strip(), *reversed(words)])
        words.append(comment.removeprefix("#").strip())
    return None


def _section(lines: Sequence[str], line: int) -> str:
    titles = (
        one.removeprefix(_SECTION).strip() for one in reversed(lines[:line]) if one.startswith(_SECTION)
    )
    return next(titles, "")


def _compact(node: yaml.Node) -> str:
    loader = yaml.SafeLoader("")
    try:
        value: Any = loader.construct_object(node, deep=True)
    finally:
        loader.dispose()
    return json.dumps(value, ensure_ascii=False)
