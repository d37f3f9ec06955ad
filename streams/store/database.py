"""The database file: opened for the writer or a reader, created if missing, renamed if damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from streams.errors import StoreDamagedError, StoreError, StoreFullError, StoreMissingError
from streams.store.schema import APPLICATION_ID, TABLES, VERSION

_log = structlog.stdlib.get_logger(__name__)

BUSY_SECONDS: Final = 15.0
CACHE_KIBIBYTES: Final = 64 * 1024
CHECKPOINT_PAGES: Final = 10_000
"""Pages of 4 KiB in the log before a checkpoint; a page written by many batches is merged once."""
LONGEST_QUERY_SECONDS: Final = 5.0
"""A slower query is cancelled, because it does not use an index."""
_SIDES: Final = ("", "-wal", "-shm")


def open_writer(path: Path) -> sqlite3.Connection:
    """Open the store for writing; create it if it is missing or has another version.

    Args:
        path: The file.

    Raises:
        StoreDamagedError: It is no database, or damaged; see `set_aside`.
        StoreError: It cannot be used, is another program's database, or has another writer.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None
        )
    except (sqlite3.Error, OSError) as error:
        raise StoreError(
            f"store.path: {path} cannot be opened ({error}); check the path and permissions"
        ) from error
    try:
        # Free pages are returned gradually, so that the file shrinks with retention.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # A power failure may lose the last transactions with their positions; their records are read again.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, path) from error
    except StoreError:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables, or raise an error if the file has other ones."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        raise StoreError(f"store.path: {path} is another program's database; choose another path")
    if tables and version == VERSION:
        return
    if tables:
        raise StoreDamagedError(
            f"store.path: {path} has version {version} of the tables, expected {VERSION}; it is rebuilt "
            "from the topics"
        )
    connection.executescript(
        f"BEGIN; {TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"
    )


def set_aside(path: Path) -> Path:
    """Rename an unusable file, replacing the one renamed before.

    Returns:
        Its new path.
    """
    aside = path.with_name(f"{path.name}.damaged")
    for side in _SIDES:
        source = path.with_name(path.name + side)
        if source.exists():
            source.replace(aside.with_name(aside.name + side))
    return aside


def remove(path: Path) -> None:
    """Delete the store, so that it is rebuilt from the topics."""
    for side in _SIDES:
        path.with_name(path.name + side).unlink(missing_ok=True)


def open_reader(path: Path) -> sqlite3.Connection:
    """Open the store for reading, concurrently with its writer and other readers.

    Args:
        path: The file.

    Raises:
        StoreMissingError: There is no store.
        StoreError: It cannot be read, or is of another version.
    """
    if not path.is_file():
        raise StoreMissingError(
            f"there is no store at {path}; run a worker with --agents store, or judgestream explore --follow"
        )
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=BUSY_SECONDS,
            check_same_thread=False,
            isolation_level=None,
        )
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only = 1")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        raise translated(error, path) from error
    if version != VERSION:
        connection.close()
        raise StoreError(
            f"the store at {path} has version {version} of the tables, expected {VERSION}; start its worker "
            "with this release once, which rebuilds it"
        )
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def file_bytes(path: Path) -> int:
    """Return the size of the store, including its write-ahead log."""
    sizes = 0
    for side in _SIDES:
        one = path.with_name(path.name + side)
        if one.is_file():
            sizes += one.stat().st_size
    return sizes


def translated(error: sqlite3.Error, path: Path) -> StoreError:
    """Translate an error of SQLite into one of the store.

    Args:
        error: SQLite's error.
        path: The file.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFullError(
            f"store.path: the disk of {path} is full; free some space, or lower store.keep_days or "
            "store.max_gigabytes"
        )
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return StoreDamagedError(f"store.path: {path} is damaged ({error}); it is rebuilt from the topics")
    return StoreError(f"store.path: {path} cannot be used ({error}); check path, permissions and disk")
