"""Cache of verdicts by evaluator and texts, in memory or in a file.

It holds `Scored` and `Unscored` results, never `Failed` ones, which a retry may resolve. A hit is marked on
the result (`judge.cached`), costs nothing and uses no tokens.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, Protocol

import orjson
from pydantic import TypeAdapter, ValidationError

from judge.metric import further_texts
from schemas import JudgeCall, JudgeTask, Scored, Unscored

_KEPT = {
    "status",
    "verdict",
    "score",
    "score_exact",
    "kind",
    "value",
    "reason",
    "evidence",
    "corrections",
    "suspicions",
    "judge",
}
_CALL = TypeAdapter(JudgeCall)


class VerdictCache(Protocol):
    """A bounded store of entries by key: `MemoryCache` or `FileCache`."""

    def get(self, key: str) -> bytes | None:
        """Return an entry, or None."""

    def put(self, key: str, entry: bytes) -> None:
        """Store an entry; may evict the least recently used one."""

    def close(self) -> None:
        """Release all resources."""


class MemoryCache:
    """Cache in memory; evicts the least recently used of at most `max_entries` entries."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """Return an entry, or None."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: str, entry: bytes) -> None:
        """Store an entry; evicts the least recently used one if full."""
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def close(self) -> None:
        """Do nothing."""


def cache_key(task: JudgeTask, *, fingerprint: str, context_tokens: int | None) -> str:
    """Return the cache key of a verdict: 64 hexadecimal digits.

    Args:
        task: Only its texts are part of the key.
        fingerprint: The evaluator's fingerprint.
        context_tokens: The context window, to which texts may have been cut.
    """
    # The order of pages counts, because it is the prompt's.
    pages = None if task.context is None else list(task.context.items())
    parts: list[Any] = [fingerprint, context_tokens, task.question, task.answer, task.reference, pages]
    if any(further_texts(task)):
        parts += [[list(one) for one in turns or ()] for turns in (task.messages, task.tool_calls)]
        parts += [task.other_answer, sorted((task.fields or {}).items())]
    try:
        written = orjson.dumps(parts)
    except TypeError:  # lone surrogates, which orjson rejects
        written = repr(parts).encode("ascii", "backslashreplace")
    return hashlib.sha256(written).hexdigest()


def cache_entry(result: Scored | Unscored) -> bytes:
    """Serialise the fields that a later result for the same texts shares."""
    return orjson.dumps(result.model_dump(mode="json", by_alias=True, include=_KEPT))


def from_entry(entry: bytes, common: dict[str, Any]) -> Scored | Unscored | None:
    """Build a result from an entry.

    Args:
        entry: Written by `cache_entry`.
        common: Fields of the current task: ids, labels, times.

    Returns:
        The result, marked as cached; None if the entry is invalid.
    """
    try:
        fields = orjson.loads(entry)
        call = _CALL.validate_python(fields.pop("judge"))
        call = call.model_copy(update={"cached": True, "fallback": False, "tries": 1})
        kind = Scored if fields["status"] == "scored" else Unscored
        return kind.model_validate({**common, **fields, "judge": call})
    except (orjson.JSONDecodeError, ValidationError, KeyError, TypeError, AttributeError):
        return None
