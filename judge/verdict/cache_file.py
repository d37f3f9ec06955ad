"""Verdicts kept in a file, so that a worker that restarts still has them.

The file is an SQLite database, by the standard library: the well-known `diskcache` has had no release since
2023 and unpickles what it finds (CVE-2025-69872, unmended), and nothing else does more for this than SQLite
itself does. Entries are JSON, never code. Several workers on one machine may share a file. A file that cannot
be read is put aside and a new one is made, and a write that fails is left out: a cache may forget, but must
not stand in the way. Each failure is counted; the log has the first of those that follow one another.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from judge.errors import JudgeConfigurationError

_log = logging.getLogger(__name__)

APPLICATION_ID: Final = 0x6A73_7663
"""Marks the file as this cache's ("jsvc"), so that no other program's database is mistaken for it."""
_VERSION: Final = 1
_OPEN_SECONDS: Final = 5.0
_BUSY_MILLISECONDS: Final = 50
"""So long a verdict waits for another worker's write at most."""
_TRIM_EVERY: Final = 64
_PRIMARY_CODE: Final = 0xFF
"""SQLite's extended error codes have the primary one in their lowest byte."""
_SCHEMA: Final = f"""
    CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, entry BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS verdicts_by_use ON verdicts (used);
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {_VERSION};
"""  # noqa: E501


def _no_one() -> None:
    """Nobody counts."""


class FileCache:
    """Entries in a file, the least recently used going first.

    Args:
        path: The file; made where it does not exist, in a folder that does.
        max_entries: At least 1; passed for a moment by a few.
        on_failure: Called each time that it cannot be read or written; not while another worker writes.

    Raises:
        JudgeConfigurationError: The file is another program's database, or cannot be opened or made.
    """

    def __init__(self, path: Path, max_entries: int, on_failure: Callable[[], None] = _no_one) -> None:
        self._path = path
        self._max_entries = max_entries
        self._on_failure = on_failure
        self._fails = False
        self._puts = 0
        self._database: sqlite3.Connection | None = None
        try:
            self._database = _open(path)
        except sqlite3.OperationalError as error:
            raise JudgeConfigurationError(
                f"judge.cache.file {path} cannot be opened: {error}; check that its folder exists "
                "and can be written"
            ) from error
        except sqlite3.DatabaseError as error:
            self._start_anew(error)

    def get(self, key: str) -> bytes | None:
        """Give an entry, or None."""
        if self._database is None:
            self._on_failure()
            return None
        try:
            row = self._database.execute("SELECT entry FROM verdicts WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            self._database.execute(f"UPDATE verdicts SET used = {_NEXT_USE} WHERE key = ?", (key,))  # noqa: S608 - a constant
        except sqlite3.OperationalError as error:
            self._failed(error)
            return None
        except sqlite3.DatabaseError as error:
            self._start_anew(error)
            return None
        return bytes(row[0]) if isinstance(row[0], bytes) else None

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry; the ones that were not used for longest go."""
        if self._database is None:
            self._on_failure()
            return
        try:
            self._database.execute(
                f"INSERT OR REPLACE INTO verdicts VALUES (?, ?, {_NEXT_USE})",  # noqa: S608 - a constant
                (key, entry),
            )
            self._puts += 1
            # Counting reads the whole index; a small cache is trimmed at once, a large one occasionally.
            if self._puts % min(_TRIM_EVERY, self._max_entries) == 0:
                self._trim()
        except sqlite3.OperationalError as error:
            self._failed(error)
        except sqlite3.DatabaseError as error:
            self._start_anew(error)
        else:
            self._fails = False

    def close(self) -> None:
        """Close the file."""
        database, self._database = self._database, None
        if database is not None:
            with suppress(sqlite3.Error):
                self._trim(database)
            database.close()

    def _trim(self, database: sqlite3.Connection | None = None) -> None:
        database = database or self._database
        assert database is not None  # noqa: S101 - callers have looked
        database.execute(
            (
                "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY used DESC LIMIT "
                "-1 OFFSET ?)"
            ),
            (self._max_entries,),
        )

    def _failed(self, error: sqlite3.OperationalError) -> None:
        """Go on without; while another worker writes, an entry is as good as not there."""
        if error.sqlite_errorcode & _PRIMARY_CODE in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return
        self._on_failure()
        if not self._fails:
            self._fails = True
            _log.warning("verdict cache %s fails, verdicts are paid for again: %s", self._path, error)

    def _start_anew(self, error: sqlite3.DatabaseError) -> None:
        self._on_failure()
        aside = self._path.with_name(f"{self._path.name}.unreadable")
        _log.warning(
            "verdict cache %s cannot be read (%s): put aside as %s, restarted", self._path, error, aside
        )
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None
        try:
            self._path.replace(aside)
            for suffix in ("-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._database = _open(self._path)
        except (OSError, sqlite3.Error) as second:
            _log.warning("verdict cache %s stays off: %s", self._path, second)


_NEXT_USE: Final = "(SELECT coalesce(max(used), 0) + 1 FROM verdicts)"


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_OPEN_SECONDS, isolation_level=None)
    try:
        if _is_new(database, path):
            database.executescript(_SCHEMA)
        # What a power failure takes was only a copy.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        database.execute("SELECT key, entry, used FROM verdicts LIMIT 1").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def _is_new(database: sqlite3.Connection, path: Path) -> bool:
    """Whether there is nothing in it yet; an error where there is something else in it."""
    tables, version, application = (
        database.execute(question).fetchone()[0]
        for question in ("SELECT count(*) FROM sqlite_master", "PRAGMA user_version", "PRAGMA application_id")
    )
    if tables and application != APPLICATION_ID:
        raise JudgeConfigurationError(
            f"judge.cache.file {path} is another program's database; name a file of its own"
        )
    if tables and version != _VERSION:
        raise sqlite3.DatabaseError(f"its version is {version}, not {_VERSION}")
    return not tables
