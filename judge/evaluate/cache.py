"""Cache of verdicts by evaluator and texts, never of failures, which a retry may resolve."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
from pydantic import TypeAdapter, ValidationError

from judge.errors import JudgeConfigurationError
from judge.metric import further_texts
from schemas import JudgeCall, JudgeTask, Scored, Unscored

_log = logging.getLogger(__name__)

_KEPT = {
    *("status", "verdict", "score", "score_exact", "kind", "value", "reason"),
    *("evidence", "corrections", "suspicions", "judge"),
}
_CALL = TypeAdapter(JudgeCall)

APPLICATION_ID: Final = 0x6A73_7663
"""Identifies a file as this cache ("jsvc"), to reject other programs' databases."""
_VERSION: Final = 1
_SIDES: Final = ("", "-wal", "-shm")
_SCHEMA: Final = f"""
    CREATE TABLE IF NOT EXISTS verdicts
        (key TEXT PRIMARY KEY, entry BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS verdicts_by_use ON verdicts (used);
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {_VERSION};
"""
_NEXT_USE: Final = "(SELECT coalesce(max(used), 0) + 1 FROM verdicts)"
_TRIM: Final = (
    "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY used DESC LIMIT -1 OFFSET ?)"
)


class MemoryCache:
    """Evicts the least recently used of at most `max_entries` entries."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: str, entry: bytes) -> None:
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def close(self) -> None: ...


class FileCache:
    """Cache in a file, which survives restarts; evicts the least recently used entries.

    The file is an SQLite database of JSON entries (`diskcache` unpickles its own: CVE-2025-69872), created in
    an existing folder. Workers on one machine may share it. A failure never blocks judging: what cannot be
    read is a miss, and the first failure is logged. In place of a damaged file memory is used.

    Raises:
        JudgeConfigurationError: The file belongs to another program, or cannot be opened or created.
    """

    def __init__(self, path: Path, max_entries: int) -> None:
        self._path = path
        self._max_entries = max_entries
        self._has_failed = False
        self._puts = 0
        try:
            if path.parent.is_dir():  # else SQLite names the problem
                make_private(path)
            self._database = _open(path)
        except (OSError, sqlite3.OperationalError) as error:
            raise JudgeConfigurationError(
                f"judge.cache.file {path} cannot be opened: {error}; check that its folder exists "
                "and can be written"
            ) from error
        except sqlite3.Error as error:
            self._failed(error)
            self._database = _open(":memory:")

    def get(self, key: str) -> bytes | None:
        rows = self._execute("SELECT entry FROM verdicts WHERE key = ?", key)
        if rows:
            self._execute(f"UPDATE verdicts SET used = {_NEXT_USE} WHERE key = ?", key)  # noqa: S608 - a constant
        return rows[0][0] if rows else None

    def put(self, key: str, entry: bytes) -> None:
        self._execute(f"INSERT OR REPLACE INTO verdicts VALUES (?, ?, {_NEXT_USE})", key, entry)  # noqa: S608 - a constant
        self._puts += 1
        # Counting reads the whole index, so a large cache is trimmed only now and then.
        if self._puts % min(64, self._max_entries) == 0:
            self._execute(_TRIM, self._max_entries)

    def close(self) -> None:
        with suppress(sqlite3.Error):  # it may be closed already
            self._database.execute(_TRIM, (self._max_entries,))
        self._database.close()

    def _execute(self, statement: str, *values: object) -> list[Any]:
        """Return the rows; none if it fails, quietly while another worker writes."""
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._failed(error)
            return []

    def _failed(self, error: sqlite3.Error) -> None:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return  # another worker writes
        if not self._has_failed:
            told = "verdict cache %s fails (%s), so repeated verdicts are billed again; delete a damaged file"
            _log.warning(told, self._path, error)
        self._has_failed = True


VerdictCache: TypeAlias = MemoryCache | FileCache


def _open(path: Path | str) -> sqlite3.Connection:
    # One thread at a time uses it, but a blocking judge has a thread of its own.
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        tables, version, application = database.execute(
            "SELECT (SELECT count(*) FROM sqlite_master), user_version, application_id "
            "FROM pragma_user_version, pragma_application_id"
        ).fetchone()
        if tables and application != APPLICATION_ID:
            raise JudgeConfigurationError(  # noqa: TRY301 - the connection is closed below
                f"judge.cache.file {path} is another program's database; name a file of its own"
            )
        if tables and version != _VERSION:
            raise sqlite3.DatabaseError(f"its version is {version}, not {_VERSION}")  # noqa: TRY301 - as above
        if not tables:
            database.executescript(_SCHEMA)
        # Entries lost in a power failure can be computed again.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA busy_timeout = 50")  # ms, the longest wait for another worker's write
        database.execute("SELECT key, entry, used FROM verdicts LIMIT 1").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def make_private(path: Path) -> None:
    """Create an SQLite file that its owner alone may read, or take others' rights from an existing one."""
    with suppress(FileExistsError):
        # An existing file is not opened: closing it would release SQLite's locks of this process.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    for side in _SIDES:
        with suppress(OSError):
            path.with_name(path.name + side).chmod(0o600)


def cache_key(task: JudgeTask, *, fingerprint: str, context_tokens: int | None) -> str:
    """Return a hash of all that a verdict depends on: texts, evaluator and window."""
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
    return orjson.dumps(result.model_dump(mode="json", by_alias=True, include=_KEPT))


def from_entry(entry: bytes, common: dict[str, Any]) -> Scored | Unscored | None:
    """Return a result with the fields of the current task; None if the entry is invalid."""
    try:
        fields = orjson.loads(entry)
        call = _CALL.validate_python(fields.pop("judge"))
        call = call.model_copy(update={"cached": True, "fallback": False, "tries": 1})
        kind = Scored if fields["status"] == "scored" else Unscored
        return kind.model_validate({**common, **fields, "judge": call})
    except (orjson.JSONDecodeError, ValidationError, KeyError, TypeError, AttributeError):
        return None
