"""Lists of mappings that were flattened into attributes, rebuilt. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_MAX_PATH: Final = 16
"""Limit of name parts between the prefix and the last part; longer names are skipped."""


def unflatten(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """Gather `prefix.0.role`, `prefix.0.content`, ... into a list of mappings, by index.

    Args:
        attributes: The attributes of a span.
        prefix: Without the full stop at its end.
    """
    start = f"{prefix}."
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if not name.startswith(start):
            continue
        *path, last = name[len(start) :].split(".")
        if len(path) > _MAX_PATH:
            continue
        node = tree
        for step in path:
            below = node.get(step)
            if not isinstance(below, dict):
                below = node[step] = {}
            node = below
        node.setdefault(last, value)
    grown = _with_lists(tree)
    return grown if isinstance(grown, list) else []


def _with_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    grown = {name: _with_lists(value) for name, value in node.items()}
    if grown and all(name.isascii() and name.isdigit() and len(name) < 10 for name in grown):
        return [grown[name] for name in sorted(grown, key=int)]
    return grown
