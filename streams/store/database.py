"""The file: opened for the writer or a reader, made where missing, set aside where damaged."""

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
"""Pages of 4 KiB that wait to be merged: one that many batches write is then merged once."""
LONGEST_QUERY_SECONDS: Final = 5.0
"""A question that takes longer is broken off: it is one that an index cannot answer."""
_SIDES: Final = ("", "-wal", "-shm")


def open_writer(path: Path) -> sqlite3.Connection:
    """Open the store for writing; make it where it is missing or of another version.

    Args:
        path: The file.

    Raises:
        StoreDamagedError: It is no database, or a damaged one; see `set_aside`.
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
        # A row that is deleted gives its pages back a few at a time, so that the file shrinks with retention.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # After a power cut the last transactions may be missing, positions with them: they are read again.
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
    """Have the tables of this version, or refuse."""
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
    """Move a file that cannot be used out of the way, in the place of the one that was moved before.

    Returns:
        Where it is now.
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
    """Open the store for reading, beside its writer and other readers, in this process or another.

    Args:
        path: The file.

    Raises:
        StoreMissingError: There is none.
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
    """All that is written inside is kept, or none of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def file_bytes(path: Path) -> int:
    """Size of the store with what is not merged into it yet."""
    sizes = 0
    for side in _SIDES:
        one = path.with_name(path.name + side)
        if one.is_file():
            sizes += one.stat().st_size
    return sizes


def translated(error: sqlite3.Error, path: Path) -> StoreError:
    """Put an error of SQLite into the store's own words.

    Args:
        error: What SQLite raised.
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
