"""Verdicts that were given before: the same evaluator on the same texts need not be asked again.

Kept are `Scored` and `Unscored` results of a call, never a `Failed` one: what went wrong once may go right
the next time. A hit says so on the result (`judge.cached`), costs nothing and took no tokens.
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
    """A bounded store of entries by key.

    Implementations: `MemoryCache`, `judge.verdict.cache_file.FileCache`.
    """

    def get(self, key: str) -> bytes | None:
        """Give an entry, or None."""

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry; the one that was not used for longest may go for it."""

    def close(self) -> None:
        """Let go of what is held."""


class MemoryCache:
    """Entries in memory, the least recently used going first.

    Args:
        max_entries: At least 1.
    """

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """Give an entry, or None."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry; the one that was not used for longest goes for it."""
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def close(self) -> None:
        """Nothing to let go of."""


def cache_key(task: JudgeTask, *, fingerprint: str, context_tokens: int | None) -> str:
    """Name a verdict by what it follows from: 64 hexadecimal digits.

    Args:
        task: Its texts count, and nothing else of it.
        fingerprint: The evaluator's.
        context_tokens: The context window, by which texts may have been cut.
    """
    # Pages in their order: it is that of the prompt.
    pages = None if task.context is None else list(task.context.items())
    parts: list[Any] = [fingerprint, context_tokens, task.question, task.answer, task.reference, pages]
    if any(further_texts(task)):
        parts += [[list(one) for one in turns or ()] for turns in (task.messages, task.tool_calls)]
        parts += [task.other_answer, sorted((task.fields or {}).items())]
    try:
        written = orjson.dumps(parts)
    except TypeError:  # lone surrogates, which orjson does not write
        written = repr(parts).encode("ascii", "backslashreplace")
    return hashlib.sha256(written).hexdigest()


def cache_entry(result: Scored | Unscored) -> bytes:
    """Write what a later result of the same texts shares with this one."""
    return orjson.dumps(result.model_dump(mode="json", by_alias=True, include=_KEPT))


def from_entry(entry: bytes, common: dict[str, Any]) -> Scored | Unscored | None:
    """Make a result from an entry.

    Args:
        entry: As `cache_entry` wrote it.
        common: What belongs to the task at hand: ids, labels, times.

    Returns:
        The result, marked as cached; None where the entry cannot be read (it came from a file).
    """
    try:
        fields = orjson.loads(entry)
        call = _CALL.validate_python(fields.pop("judge"))
        call = call.model_copy(update={"cached": True, "fallback": False, "tries": 1})
        kind = Scored if fields["status"] == "scored" else Unscored
        return kind.model_validate({**common, **fields, "judge": call})
    except (orjson.JSONDecodeError, ValidationError, KeyError, TypeError, AttributeError):
        return None
