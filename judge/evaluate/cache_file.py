"""Cache of verdicts in a file, which survives restarts.

The file is an SQLite database of the standard library; `diskcache` has had no release since 2023 and
unpickles its entries (CVE-2025-69872, unfixed). Entries are JSON. Workers on one machine may share a file. An
unreadable file is renamed and replaced by a new one, and failed writes are skipped, so cache failures never
block judging; some seconds after a failure the file is opened again. Every failure is counted; only the first
of consecutive ones is logged.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from judge.errors import JudgeConfigurationError
from judge.files import make_private

_log = logging.getLogger(__name__)

APPLICATION_ID: Final = 0x6A73_7663
"""Identifies the file as this cache ("jsvc"), to reject other programs' databases."""
_VERSION: Final = 1
AGAIN_SECONDS: Final = 5.0
"""Pause after a failure before the file is opened again."""
_OPEN_SECONDS: Final = 5.0
_BUSY_MILLISECONDS: Final = 50
"""Longest wait for another worker's write."""
_TRIM_EVERY: Final = 64
_PRIMARY_CODE: Final = 0xFF
"""Mask of the primary code in SQLite's extended error codes."""
_SCHEMA: Final = f"""
    CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, entry BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS verdicts_by_use ON verdicts (used);
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {_VERSION};
"""  # noqa: E501


def _no_one() -> None:
    """Do nothing."""


class FileCache:
    """Cache in a file; evicts the least recently used entries.

    Use it to keep verdicts over restarts, or to share them between processes of one machine.

    Args:
        path: The file; created if missing, in an existing folder.
        max_entries: At least 1; may be exceeded briefly.
        on_failure: Called on each failed read or write, except while another worker writes.
        monotonic: Returns the seconds of a clock that nobody sets.

    Raises:
        JudgeConfigurationError: The file belongs to another program, or cannot be opened or created.
    """

    def __init__(
        self,
        path: Path,
        max_entries: int,
        on_failure: Callable[[], None] = _no_one,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._max_entries = max_entries
        self._on_failure = on_failure
        self._monotonic = monotonic
        self._failed_at: float | None = None
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
        """Return an entry, or None."""
        database = self._usable()
        if database is None:
            return None
        try:
            row = database.execute("SELECT entry FROM verdicts WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            database.execute(f"UPDATE verdicts SET used = {_NEXT_USE} WHERE key = ?", (key,))  # noqa: S608 - a constant
        except sqlite3.OperationalError as error:
            self._failed(error)
            return None
        except sqlite3.DatabaseError as error:
            self._start_anew(error)
            return None
        return bytes(row[0]) if isinstance(row[0], bytes) else None

    def put(self, key: str, entry: bytes) -> None:
        """Store an entry; evicts the least recently used ones."""
        database = self._usable()
        if database is None:
            return
        try:
            database.execute(
                f"INSERT OR REPLACE INTO verdicts VALUES (?, ?, {_NEXT_USE})",  # noqa: S608 - a constant
                (key, entry),
            )
            self._puts += 1
            # Counting reads the whole index, so a large cache is trimmed only every `_TRIM_EVERY` writes.
            if self._puts % min(_TRIM_EVERY, self._max_entries) == 0:
                self._trim(database)
        except sqlite3.OperationalError as error:
            self._failed(error)
        except sqlite3.DatabaseError as error:
            self._start_anew(error)
        else:
            self._failed_at = None

    def close(self) -> None:
        """Close the file."""
        database, self._database = self._database, None
        if database is not None:
            with suppress(sqlite3.Error):
                self._trim(database)
            database.close()

    def _usable(self) -> sqlite3.Connection | None:
        """Return the connection, opened again some seconds after a failure; None counts as a failure."""
        if self._failed_at is not None and self._monotonic() - self._failed_at >= AGAIN_SECONDS:
            self._failed_at = self._monotonic()
            if self._database is not None:
                self._database.close()
            try:
                self._database = _open(self._path)
            except (OSError, sqlite3.Error, JudgeConfigurationError):
                self._database = None
        if self._database is None:
            self._on_failure()
        return self._database

    def _trim(self, database: sqlite3.Connection) -> None:
        database.execute(
            (
                "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY used DESC LIMIT "
                "-1 OFFSET ?)"
            ),
            (self._max_entries,),
        )

    def _failed(self, error: sqlite3.OperationalError) -> None:
        """Count and log a failure; a lock held by another worker is none."""
        if error.sqlite_errorcode & _PRIMARY_CODE in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return
        self._on_failure()
        if self._failed_at is None:
            self._failed_at = self._monotonic()
            _log.warning("verdict cache %s fails, repeated verdicts are billed again: %s", self._path, error)

    def _start_anew(self, error: sqlite3.DatabaseError) -> None:
        self._on_failure()
        aside = self._path.with_name(f"{self._path.name}.unreadable")
        _log.warning(
            "verdict cache %s cannot be read (%s): renamed to %s, starting with an empty one",
            self._path,
            error,
            aside,
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
            self._failed_at = self._monotonic()
            _log.warning("verdict cache %s cannot be used; trying again: %s", self._path, second)


_NEXT_USE: Final = "(SELECT coalesce(max(used), 0) + 1 FROM verdicts)"


def _open(path: Path) -> sqlite3.Connection:
    if path.parent.is_dir():  # else SQLite names the problem
        make_private(path)
    database = sqlite3.connect(path, timeout=_OPEN_SECONDS, isolation_level=None)
    try:
        if _is_new(database, path):
            database.executescript(_SCHEMA)
        # Entries lost in a power failure can be computed again.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        database.execute("SELECT key, entry, used FROM verdicts LIMIT 1").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def _is_new(database: sqlite3.Connection, path: Path) -> bool:
    """Return whether the database is empty; raise if it is not this cache's."""
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
