"""Parse YAML settings: only plain values, bounded in size. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import yaml

MAX_CHARS: Final = 262_144
"""Longer texts are refused: parsing takes seconds per megabyte."""
MAX_NODES: Final = 100_000
"""Limit of values, counted as often as aliases repeat them."""
MAX_DEPTH: Final = 50
MAX_NUMBER_CHARS: Final = 100
_TAG: Final = "tag:yaml.org,2002:"
_TIMESTAMP: Final = f"{_TAG}timestamp"
_TAKEN: Final = frozenset(
    f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge", "value")
)
_NUMBERS: Final = frozenset({f"{_TAG}int", f"{_TAG}float"})


class PlainYamlError(ValueError):
    """A text is no plain YAML.

    The message quotes no value, which may be a secret.

    Args:
        what: What is wrong.
        mark: Where; None if unknown.
    """

    def __init__(self, what: str, mark: yaml.error.Mark | None = None) -> None:
        where = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        super().__init__(f"is not valid YAML{where}: {what}")
        self.what = what


def read_yaml(text: str) -> Any:
    """Read one document; dates stay texts.

    Raises:
        PlainYamlError: It is invalid, has a duplicate key or a tag that is not plain, or is too large with
            aliases expanded.
    """
    if len(text) > MAX_CHARS:
        raise PlainYamlError(f"has {len(text)} characters, at most {MAX_CHARS} are read; shorten it")
    try:
        return _document(text)
    except PlainYamlError:
        raise
    except yaml.MarkedYAMLError as error:
        raise PlainYamlError(_without_values(error), error.problem_mark or error.context_mark) from None
    except yaml.YAMLError:
        raise PlainYamlError("it has characters that no YAML may have; save it as plain text") from None
    except RecursionError:
        raise PlainYamlError("it is nested too deeply; flatten it") from None
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
        # Raised by the library's constructors for `!!int x`, `!!bool x` etc.
        raise PlainYamlError("a value is not of the type that its tag names; remove the tag") from None


def _document(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {}, set(), 0)
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Safe YAML loader that refuses duplicate keys, of which the first would be lost silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == f"{_TAG}merge":
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise PlainYamlError("a key must be a text", key_node.start_mark)
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise PlainYamlError(f"{key_node.value[:80]!r} is given twice; keep one", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _measure(node: yaml.Node, sizes: dict[int, int], above: set[int], depth: int) -> int:
    """Return the number of values of a node, with aliases expanded.

    Raises:
        PlainYamlError: Too many, nested too deeply or within themselves, or with a tag that is not plain.
    """
    if id(node) in above:
        raise PlainYamlError("an alias stands within what it repeats; write it out", node.start_mark)
    if depth > MAX_DEPTH:
        raise PlainYamlError(f"it is nested deeper than {MAX_DEPTH} levels; flatten it", node.start_mark)
    known = sizes.get(id(node))
    if known is not None:
        return known
    _check_tag(node)
    size = 1
    if isinstance(node, yaml.CollectionNode):
        above.add(id(node))
        for child in node.value:
            for one in child if isinstance(child, tuple) else (child,):
                size += _measure(one, sizes, above, depth + 1)
                if size > MAX_NODES:
                    raise PlainYamlError(
                        f"its aliases make more than {MAX_NODES} values; write out what is meant",
                        node.start_mark,
                    )
        above.remove(id(node))
    sizes[id(node)] = size
    return size


def _check_tag(node: yaml.Node) -> None:
    if node.tag == _TIMESTAMP and isinstance(node, yaml.ScalarNode):
        node.tag = f"{_TAG}str"
    if node.tag not in _TAKEN:
        raise PlainYamlError(
            "only plain values are taken, without tags such as !!set; remove the tag", node.start_mark
        )
    if node.tag in _NUMBERS and len(node.value) > MAX_NUMBER_CHARS:
        raise PlainYamlError(
            f"a number has more than {MAX_NUMBER_CHARS} characters; shorten it", node.start_mark
        )


def _without_values(error: yaml.MarkedYAMLError) -> str:
    """Return the library's message without quotations: after *, & or ! there may be a password."""
    words = str(error.problem or error.context)
    if words.startswith("found character '\\t'"):
        return "there is a tab; YAML is indented with spaces, replace it"
    quote = next((place for place, char in enumerate(words) if char in "'\""), None)
    if quote is None:
        return words
    kind = words[:quote].rstrip()
    # A single quoted character names what is missing; longer quotations are the text's own.
    last = words.rfind(words[quote])
    return (
        words
        if last - quote <= 2 or not kind.endswith(("alias", "anchor", "tag", "handle"))
        else kind + words[last + 1 :]
    )
