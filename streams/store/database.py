"""The store's file: its one writer's connection, and snapshots for readers in any thread."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Final, TypeAlias

from judge.evaluate.cache import make_private
from judge.text.printable import NO_DESCRIPTORS, out_of_descriptors
from streams.errors import StoreDamagedError, StoreError, StoreFullError, StoreMissingError, TooSlowError

VERSION: Final = 7
"""Increase it with every change of `tables.sql`: a store of another version is rebuilt from the topics."""
APPLICATION_ID: Final = 0x6A737472
"""The bytes "jstr" mark the file, so that no other database is overwritten."""
BUSY_SECONDS: Final = 15.0
CACHE_KIBIBYTES: Final = 64 * 1024
LONGEST_QUERY_SECONDS: Final = 5.0
CHECK_SECONDS: Final = 20.0
_STEPS: Final = 20_000
"""SQLite instructions between two checks of the clock: a few milliseconds."""
_SIDES: Final = ("", "-wal", "-shm")
Snapshot: TypeAlias = sqlite3.Connection
"""Reads one state of the store; its rows are `sqlite3.Row`."""
_connect = partial(sqlite3.connect, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None)


def check(path: Path, written: Mapping[tuple[str, int], int]) -> None:
    """Compare the file with itself and its positions with those written, unless that takes too long."""
    try:
        with read_store(path, CHECK_SECONDS) as snapshot:
            seen = snapshot.execute("SELECT topic, partition, next FROM positions").fetchall()
            (found,) = snapshot.execute("PRAGMA quick_check(1)").fetchone()
    except TooSlowError:
        return
    except StoreMissingError as error:
        raise StoreDamagedError(f"store.path: {path} was deleted; it is rebuilt from the topics") from error
    if found != "ok":
        raise StoreDamagedError(f"store.path: {path} is damaged ({found}); it is rebuilt from the topics")
    if {(topic, partition): offset for topic, partition, offset in seen} != written:
        raise StoreError(f"store.path: {path} or its log was changed by another process; it is opened again")


def open_writer(path: Path) -> sqlite3.Connection:
    """Open the store for writing; create it if it is missing."""
    connection = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        make_private(path)
        connection = _connect(path)
        # Free pages are returned gradually, so that the file shrinks with retention.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # A power failure may lose the last transactions with their positions; their records are read again.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        _create_tables(connection, path)
    except (sqlite3.Error, OSError, StoreError) as error:
        if connection is not None:
            connection.close()
        raise store_error(error, path) from error
    return connection


def _create_tables(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        raise StoreError(f"store.path: {path} is another program's database; choose another path")
    if tables and version != VERSION:
        what = f"has version {version} of the tables, expected {VERSION}; it is rebuilt from the topics"
        raise StoreDamagedError(f"store.path: {path} {what}")
    if not tables:
        created = resources.files("streams.store").joinpath("tables.sql").read_text(encoding="utf-8")
        connection.executescript(
            f"BEGIN; {created} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; "
            "COMMIT;"
        )


def set_aside(path: Path) -> Path:
    """Rename an unusable file, replacing the one renamed before; return its new path."""
    aside = path.with_name(f"{path.name}.damaged")
    for side in _SIDES:
        source = path.with_name(path.name + side)
        if source.exists():
            source.replace(aside.with_name(aside.name + side))
    return aside


def file_bytes(path: Path) -> int:
    """Return the size of the store with its write-ahead log."""
    files = (path.with_name(path.name + side) for side in _SIDES)
    return sum(file.stat().st_size for file in files if file.is_file())


def store_error(error: Exception, path: Path) -> StoreError:
    """Return an error of SQLite or the file system as one of the store."""
    if isinstance(error, StoreError):
        return error
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if out_of_descriptors():
        return StoreError(f"store.path: {path} cannot be opened, {NO_DESCRIPTORS}")
    if code == sqlite3.SQLITE_FULL:
        remedy = "free some space, or lower store.keep_days or store.max_gigabytes"
        return StoreFullError(f"store.path: the disk of {path} is full; {remedy}")
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return StoreDamagedError(f"store.path: {path} is damaged ({error}); it is rebuilt from the topics")
    if code == sqlite3.SQLITE_INTERRUPT:
        return TooSlowError("the query took too long; choose a shorter time or fewer words")
    return StoreError(f"store.path: {path} cannot be used ({error}); check path, permissions and disk")


@contextmanager
def read_store(path: Path, longest_seconds: float = LONGEST_QUERY_SECONDS) -> Iterator[Snapshot]:
    """Open a consistent snapshot for queries by one thread, also while the store is written."""
    if not path.is_file():
        remedy = "run a worker with --agents store, or judgestream explore --follow"
        raise StoreMissingError(f"there is no store at {path}; {remedy}")
    try:
        # A connection for each snapshot: opening takes 0.1 ms, and a rebuilt file is noticed at once.
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(_connect(uri, uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != VERSION:
                what = f"has version {version} of the tables, expected {VERSION}"
                remedy = "start its worker with this release once, which rebuilds it"
                raise StoreError(f"the store at {path} {what}; {remedy}")
            deadline = time.monotonic() + longest_seconds
            connection.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS)
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise store_error(error, path) from error
