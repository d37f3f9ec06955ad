"""Few-shot examples of a prompt pack: events with the expected reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from judge.errors import InvalidVerdictError, PromptPackError
from judge.metric import Inputs
from judge.metrics.packs.inputs import NAMED, TEXTS
from judge.metrics.packs.templates import InputName
from schemas import ChatMessage, ToolCall

MAX_EXAMPLES = 50
"""Limited, because every call sends all examples."""

_NAMES: Mapping[str, InputName] = {
    "question": "question",
    "input": "question",
    "output_text": "answer",
    **{name: name for name in TEXTS},
}
_MESSAGES = TypeAdapter(tuple[ChatMessage, ...])
_CALLS = TypeAdapter(tuple[ToolCall, ...])


@dataclass(frozen=True, slots=True)
class Example:
    """One example: the texts for the template, and the reply."""

    inputs: Inputs
    reply: str


def read_examples(
    given: Any,
    *,
    uses: frozenset[InputName],
    check: Callable[[str], object],
) -> tuple[Example, ...]:
    """Check a pack's examples.

    Args:
        given: A list of mappings: the texts that the templates use, by their names in either dialect, and
            `reply`, a mapping or a text.
        uses: The texts that the templates use; each example must have exactly these.
        check: Raises InvalidVerdictError for a reply that the metric would reject.

    Raises:
        PromptPackError: An example is invalid.
    """
    if not isinstance(given, list) or len(given) > MAX_EXAMPLES:
        count = f", got {len(given)}" if isinstance(given, list) else ""
        raise PromptPackError(f"examples must be a list of at most {MAX_EXAMPLES}{count}")
    return tuple(_example(number, one, uses, check) for number, one in enumerate(given, 1))


def _example(number: int, given: Any, uses: frozenset[InputName], check: Callable[[str], object]) -> Example:
    where = f"example {number}"
    if not isinstance(given, Mapping):
        raise PromptPackError(f"{where} must be a mapping with {_listed(uses)} and reply")
    texts: dict[InputName, Any] = {}
    for key, value in _spread(where, given).items():
        if key == "reply":
            continue
        name = key if NAMED.fullmatch(key) else _NAMES.get(key)
        if name is None or name in texts or name not in uses:
            reason = "is given twice" if name in texts else "is not used by the templates"
            raise PromptPackError(f"{where}: {key!r} {reason}; it takes {_listed(uses)} and reply")
        texts[name] = _value(where, key, name, value)
    missing = uses - texts.keys()
    if missing:
        raise PromptPackError(f"{where} lacks {_listed(missing)}, which the templates use")
    named = {name.removeprefix("fields."): texts.pop(name) for name in [*texts] if NAMED.fullmatch(name)}
    return Example(
        Inputs(**({"question": "", "answer": ""} | texts), fields=named or None),
        _reply(where, given.get("reply"), check),
    )


def _spread(where: str, given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the example with fields and labels under their template names."""
    spread: dict[str, Any] = {}
    for key, value in given.items():
        if key not in {"fields", "labels"}:
            spread[str(key)] = value
        elif isinstance(value, Mapping):
            spread |= {f"{key}.{name}": text for name, text in value.items()}
        else:
            raise PromptPackError(f"{where}: {key} must be a mapping of a name to its text")
    return spread


def _value(where: str, key: str, name: InputName, value: Any) -> Any:
    if name == "context":
        return _context(where, value)
    if name not in {"messages", "tool_calls"}:
        return _text(where, key, value)
    try:
        return (_MESSAGES if name == "messages" else _CALLS).validate_python(value)
    except ValidationError:
        form = "role and content" if name == "messages" else "name, arguments and result"
        raise PromptPackError(f"{where}: {key} must be a list of mappings with {form}") from None


def _text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise PromptPackError(f"{where}: {key} must be a text, got {value!r:.60}")
    return value


def _context(where: str, value: Any) -> dict[str, str]:
    pages = {"Page-1": value} if isinstance(value, str) else value
    if not isinstance(pages, Mapping) or not all(
        isinstance(name, str) and isinstance(text, str) for name, text in pages.items()
    ):
        raise PromptPackError(f"{where}: context must be a mapping of a page's name to its text")
    return dict(pages)


def _reply(where: str, value: Any, check: Callable[[str], object]) -> str:
    try:
        reply = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
        check(reply)
    except (TypeError, ValueError, RecursionError, InvalidVerdictError) as error:
        raise PromptPackError(
            f'{where}: reply must be what the judge should say, with a "score", as in {{"score": 4}}: {error}'
        ) from error
    return reply.strip()


def _listed(names: frozenset[InputName] | set[InputName]) -> str:
    return ", ".join(
        sorted(names, key=lambda name: (TEXTS.index(name) if name in TEXTS else len(TEXTS), name))
    )
